// sluice-dataset: converts images and labels into the dataset format.
#include <iostream>

#include "core/command/options.h"
#include "core/error.h"
#include "core/text.h"
#include "datasets/labelled_idx.h"

namespace sluice {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "usage: sluice-dataset idx [options]\n"
    "  idx  converts IDX files, plain or gzip (MNIST, Fashion-MNIST)\n"
    "sluice-dataset idx --help lists the options; sluice-dataset --version the versions.\n";

struct Options {
  std::string train_images, train_labels, test_images, test_labels;
  std::string output;
  std::int64_t padding = 0;
  std::int64_t limit_train = -1;
  std::int64_t limit_test = -1;
};

po::options_description described(Options& options) {
  po::options_description table("options");
  table.add_options()                                                                             //
      ("train-images", po::value(&options.train_images)->required(), "training images (rank 3)")  //
      ("train-labels", po::value(&options.train_labels)->required(), "their labels (rank 1)")     //
      ("test-images", po::value(&options.test_images)->required(), "test images")                 //
      ("test-labels", po::value(&options.test_labels)->required(), "their labels")                //
      ("pad", po::value(&options.padding)->default_value(0), "black pixels to add on each side")  //
      ("limit-train", po::value(&options.limit_train), "take that many training images only")     //
      ("limit-test", po::value(&options.limit_test), "take that many test images only")           //
      ("output,o", po::value(&options.output)->required(), "file to write (schema sluice/dataset)");
  return table;
}

/// The classes are those of the training part; the test part may lack some.
void require_same_kind(const Options& options, const ImageKind& train, const ImageKind& test) {
  if (train.height != test.height || train.width != test.width)
    throw bad_input(text(options.test_images, ": images of ", test.height, " x ", test.width,
                         ", those for training have ", train.height, " x ", train.width));
  if (test.classes > train.classes)
    throw bad_input(text(options.test_labels, ": holds label ", test.classes - 1, ", the largest for training is ",
                         train.classes - 1));
}

void convert(const Options& options, const Provenance& provenance) {
  check_writable(options.output, kDatasetSchema);
  const IdxPart train =
      read_labelled_idx(options.train_images, options.train_labels, options.padding, options.limit_train);
  const IdxPart test = read_labelled_idx(options.test_images, options.test_labels, options.padding, options.limit_test);
  require_same_kind(options, train.kind, test.kind);
  write_dataset(options.output, train.kind, train.part, test.part, provenance);
  std::cout << options.output << ": " << train.part.labels.size() << " training and " << test.part.labels.size()
            << " test images of " << train.kind.height << " x " << train.kind.width << ", " << train.kind.classes
            << " classes\n";
}

void require_sensible(const Options& options, const po::variables_map& given) {
  if (options.padding < 0 || options.padding > 4096)
    throw usage_error(text("--pad ", options.padding, ": expected 0 to 4096"));
  for (const char* name : {"limit-train", "limit-test"})
    if (given.count(name) > 0 && given[name].as<std::int64_t>() < 1)
      throw usage_error(text("--", name, " ", given[name].as<std::int64_t>(), ": expected at least 1"));
}

void idx_command(const Words& words) {
  Options options;
  const CommandSyntax syntax{
      "sluice-dataset idx --train-images F --train-labels F --test-images F --test-labels F -o DATASET",
      described(options),
      {}};
  const auto values = parse_options(syntax, words, std::cout);
  if (!values) return;
  require_sensible(options, *values);
  convert(options, {command_line("sluice-dataset idx", words), resolved_options(*values)});
}

void run(const Words& words) {
  if (words.empty()) throw usage_error(text("no command\n", kUsage));
  if (words[0] == "--help" || words[0] == "-h") {
    std::cout << kUsage;
  } else if (words[0] == "--version") {
    std::cout << creator() << "\n";
  } else if (words[0] == "idx") {
    idx_command(Words(words.begin() + 1, words.end()));
  } else {
    throw usage_error(text("unknown command '", words[0], "'\n", kUsage));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const auto failed = [](const char* what, sluice::ExitCode code) {
    std::cerr << "sluice-dataset: " << what << "\n";
    return static_cast<int>(code);
  };
  try {
    sluice::run(sluice::Words(argv + 1, argv + argc));
    std::cout.flush();
    if (!std::cout) throw sluice::runtime_fault("standard output could not be written");
    return static_cast<int>(sluice::ExitCode::done);
  } catch (const sluice::Error& error) {
    return failed(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return failed(error.what(), sluice::ExitCode::runtime_fault);
  }
}
