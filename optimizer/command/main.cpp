#include <boost/version.hpp>
#include <iostream>
#include <map>

#include "core/error.h"
#include "core/storage/writer.h"
#include "core/text.h"
#include "optimizer/command/commands.h"

namespace sluice {
namespace {

using Command = int (*)(const Words&);

const std::map<std::string, Command> kCommands{
    {"import", import_command}, {"optimize", optimize_command}, {"simulate", simulate_command},
    {"verify", verify_command}, {"show", show_command},         {"report", report_command},
    {"export", export_command},
};

constexpr const char* kUsage =
    "usage: sluice COMMAND [options]\n"
    "  import    turns a foreign profile into one of ours\n"
    "  optimize  makes a plan from a profile and a cluster\n"
    "  simulate  predicts when a plan's instructions run\n"
    "  verify    checks that a plan can run: no hang, no tensor missing, memory enough\n"
    "  show      prints what is in a file of ours\n"
    "  report    prints what a run's results say\n"
    "  export    writes the weights of a checkpoint as a plain file\n"
    "sluice COMMAND --help lists a command's options; sluice --version the versions.\n";

int run(const Words& words) {
  if (words.empty()) throw usage_error(text("no command\n", kUsage));
  if (words[0] == "--help" || words[0] == "-h") {
    std::cout << kUsage;
  } else if (words[0] == "--version") {
    std::cout << creator() << ", Boost " << BOOST_VERSION / 100000 << '.' << BOOST_VERSION / 100 % 1000 << '.'
              << BOOST_VERSION % 100 << '\n';
  } else if (const auto command = kCommands.find(words[0]); command != kCommands.end()) {
    return command->second(Words(words.begin() + 1, words.end()));
  } else {
    throw usage_error(text("unknown command '", words[0], "'\n", kUsage));
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    const int code = sluice::run(sluice::Words(argv + 1, argv + argc));
    std::cout.flush();
    if (!std::cout) throw sluice::runtime_fault("standard output could not be written");
    return code;
  } catch (const sluice::Error& error) {
    std::cerr << "sluice: " << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cerr << "sluice: " << error.what() << std::endl;
    return static_cast<int>(sluice::ExitCode::runtime_fault);
  }
}
