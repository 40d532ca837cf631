#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "core/storage/checkpoint_files.h"
#include "core/storage/weights_file.h"
#include "core/text.h"
#include "optimizer/command/commands.h"

namespace sluice {

namespace po = boost::program_options;

namespace {

/// @throws Error (bad input) if a file holds other layers than the manifest says
Weights read_checkpoint(const std::string& folder, const CheckpointManifest& manifest) {
  LayerStates all;
  for (const StateFile& file : manifest.files) {
    const std::string path = text(folder, "/", file.name);
    LayerStates states = read_state(path);
    for (const std::string& layer : file.layers) {
      const auto found = states.find(layer);
      if (found == states.end())
        throw bad_input(text(path, ": layer ", layer, " is missing, which the manifest lists"));
      all.insert(states.extract(found));
    }
  }
  return weights_of(std::move(all));
}

/// Of the newest checkpoint that verifies; newer ones are named on stderr.
Weights newest_weights(const std::string& checkpoints) {
  if (checkpoint_steps(checkpoints).empty())
    throw bad_input(text(checkpoints, ": holds no checkpoint: name a weights file, a checkpoint or a folder of some"));
  const auto manifest = newest_checkpoint(checkpoints, [](const std::string& fault) {
    std::cerr << "sluice: warning: " << fault << ": passed over" << std::endl;
  });
  if (!manifest) throw bad_input(text(checkpoints, ": none of its checkpoints is whole"));
  return read_checkpoint(checkpoint_folder(checkpoints, manifest->step), *manifest);
}

Weights read_source(const std::string& source) {
  if (!std::filesystem::is_directory(source)) return read_weights(source);
  if (is_checkpoint(source)) return read_checkpoint(source, verified_manifest(source));
  return newest_weights(source);
}

}  // namespace

int export_command(const Words& words) {
  CommandSyntax syntax{"sluice export weights SOURCE -o FILE", po::options_description("options"), {"what", "source"}};
  syntax.table.add_options()                                     //
      ("what", po::value<std::string>()->required(), "weights")  //
      ("source", po::value<std::string>()->required(),
       "a checkpoint, a folder of checkpoints (the newest that is whole), or a weights file")  //
      ("output,o", po::value<std::string>()->required(), "the weights file to write");
  const auto values = parse_options(syntax, words, std::cout);
  if (!values) return static_cast<int>(ExitCode::done);
  static_cast<void>(choice(*values, "what", {"weights"}));
  const std::string& output = (*values)["output"].as<std::string>();
  check_writable(output, kWeightsSchema);
  const Weights weights = read_source((*values)["source"].as<std::string>());
  write_weights(output, weights, {command_line("sluice export", words), resolved_options(*values)});
  std::cout << output << ": " << weights.size() << (weights.size() == 1 ? " layer\n" : " layers\n");
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
