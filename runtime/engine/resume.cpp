#include "runtime/engine/resume.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "core/error.h"
#include "core/storage/atomic_file.h"
#include "core/storage/in_file.h"
#include "core/storage/weights_file.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/log.h"
#include "runtime/engine/state_check.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Rank 0's, at all ranks: newest first.
std::vector<std::int64_t> agreed_steps(Communicator& comm, const std::string& checkpoints) {
  std::string list;
  on_rank_zero(comm, [&] {
    for (const std::int64_t step : checkpoint_steps(checkpoints)) list += text(step, ' ');
  });
  std::istringstream stream(comm.broadcast(list));
  return {std::istream_iterator<std::int64_t>(stream), {}};
}

/// What is damaged is found by one of the ranks.
CheckpointManifest read_and_verify(const std::string& folder, std::int64_t step, Rank rank, int ranks) {
  CheckpointManifest manifest = read_manifest(folder);
  require_step(folder, manifest, step);
  for (std::size_t i = static_cast<std::size_t>(rank); i < manifest.files.size(); i += static_cast<std::size_t>(ranks))
    verify_state(folder, manifest.files[i]);
  return manifest;
}

std::string setting(const CheckpointManifest& manifest, const std::string& name) {
  const auto found = manifest.settings.find(name);
  return found == manifest.settings.end() ? "unknown" : found->second;
}

}  // namespace

void require_shared(Communicator& comm, const std::string& folder) {
  collectively(comm, [&] {
    if (!fs::is_directory(folder))
      throw bad_input(text(comm.describe(comm.rank()), " does not see ", folder,
                           ", which rank 0 does: name a folder that all nodes share with --checkpoints"));
  });
}

void make_checkpoints_folder(Communicator& comm, const std::string& checkpoints) {
  on_rank_zero(comm, [&] {
    std::error_code error;
    fs::create_directories(checkpoints, error);
    if (error)
      throw bad_input(text(checkpoints, ": cannot be made: ", error.message(), ": name another --checkpoints"));
  });
  require_shared(comm, checkpoints);
  collectively(comm, [&] { const AtomicFile probe(text(checkpoints, "/", state_name(comm.rank()))); });
}

std::optional<CheckpointManifest> agree_on_checkpoint(Communicator& comm, const std::string& checkpoints) {
  const std::vector<std::int64_t> steps = agreed_steps(comm, checkpoints);
  for (const std::int64_t step : steps) {
    const std::string folder = checkpoint_folder(checkpoints, step);
    require_shared(comm, folder);
    try {
      CheckpointManifest manifest;
      collectively(comm, [&] { manifest = read_and_verify(folder, step, comm.rank(), comm.size()); });
      return manifest;
    } catch (const AgreedError& error) {
      if (comm.rank() == 0) log_line(text("warning: ", folder, " is damaged and passed over: ", error.what()));
    }
  }
  if (steps.empty()) return std::nullopt;
  throw AgreedError(ExitCode::bad_input,
                    text(checkpoints, ": all ", steps.size(),
                         " checkpoints are damaged (named above): remove the folder, or train without --resume and "
                         "with another --checkpoints, to begin anew"));
}

void require_no_checkpoint(const std::string& checkpoints) {
  const std::vector<std::int64_t> steps = checkpoint_steps(checkpoints);
  if (!steps.empty())
    throw bad_input(text(checkpoints, " holds a checkpoint of step ", steps.front(),
                         ": go on from it with --resume, or begin anew with another --checkpoints, or remove it"));
}

void require_same_training(const std::string& folder, const CheckpointManifest& then, const CheckpointManifest& now,
                           const Model& model) {
  const auto require = [&](const char* what, auto before, auto after, const char* way_out) {
    if (before == after) return;
    throw bad_input(text(folder, " is of a training with ", what, ' ', before, ", but this one has ", after, ": ",
                         way_out, ", or begin anew with another --checkpoints"));
  };
  require("seed", then.seed, now.seed, "give the same --seed");
  require("a number of training samples of", then.samples, now.samples, "give the same --data");
  require("a global batch of", then.global_batch(), now.global_batch(),
          "resume with a plan of the same product of micro-batches and micro-batch");
  std::vector<std::string> layers;
  for (const StateFile& file : then.files) layers.insert(layers.end(), file.layers.begin(), file.layers.end());
  in_file(folder, [&] { require_layers_of(model, layers); });
}

std::vector<std::string> differences(const CheckpointManifest& then, const CheckpointManifest& now) {
  std::string settings, bits;
  const auto compare = [](std::string& list, const std::string& what, const auto& before, const auto& after) {
    if (before != after) list += text(list.empty() ? "" : ", ", what, ' ', after, " (was ", before, ')');
  };
  for (const char* name : {"learning-rate", "momentum", "weight-decay"})
    compare(settings, name, setting(then, name), setting(now, name));
  compare(bits, "micro-batches", then.microbatches, now.microbatches);
  compare(bits, "micro-batch", then.microbatch, now.microbatch);
  compare(bits, "threads", then.threads, now.threads);
  compare(bits, "device", then.device, now.device);
  std::vector<std::string> lines;
  if (!settings.empty()) lines.push_back(text("warning: goes on with another ", settings));
  if (!bits.empty())
    lines.push_back(text("losses and weights will differ in their last bits from those without a restart: ", bits));
  return lines;
}

void load_checkpoint(Communicator& comm, Executor& executor, const std::string& folder,
                     const CheckpointManifest& manifest) {
  collectively(comm, [&] {
    const std::vector<std::string> kept = executor.kept_layers();
    const auto is_needed = [&](const std::string& layer) { return std::count(kept.begin(), kept.end(), layer) > 0; };
    LayerStates states;
    for (const StateFile& file : manifest.files) {
      if (std::none_of(file.layers.begin(), file.layers.end(), is_needed)) continue;
      states.merge(read_state((fs::path(folder) / file.name).string(), kept));
    }
    in_file(folder, [&] { executor.load(states); });
  });
}

void load_weights(Executor& executor, const Model& model, const std::string& path) {
  LayerStates states;
  for (const auto& [layer, parameters] : read_weights(path))
    for (const auto& [name, array] : parameters) states[layer][name] = {array.shape, array.values, {}};
  in_file(path, [&] {
    require_fitting(states, model);
    executor.load(states);
  });
}

}  // namespace sluice
