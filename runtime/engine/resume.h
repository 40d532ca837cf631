#pragma once

#include <optional>
#include <string>

#include "core/model.h"
#include "core/storage/checkpoint_files.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/executor.h"

/// Where a run begins: at a checkpoint, at the weights of a file, or anew.
namespace sluice {

/// Collective. @throws AgreedError (bad input) if a rank does not see the folder
void require_shared(Communicator& comm, const std::string& folder);

/// So that nobody trains for hours to learn that there are no checkpoints. Collective.
/// @throws AgreedError (bad input) if the folder cannot be made, or if a rank does not see it or cannot write into it
void make_checkpoints_folder(Communicator& comm, const std::string& checkpoints);

/// The newest checkpoint whose files are what its manifest says; none if there is no checkpoint at all. The ranks share
/// the work. Those that are damaged are named and passed over. Collective.
/// @throws AgreedError (bad input) if all are damaged, or if a rank does not see the folder
[[nodiscard]] std::optional<CheckpointManifest> agree_on_checkpoint(Communicator& comm, const std::string& checkpoints);

/// @throws Error (bad input) naming the way out if there is one already
void require_no_checkpoint(const std::string& checkpoints);

/// Another seed, number of samples or global batch, or other layers, would be another training.
/// @param now  the conditions of this run
/// @throws Error (bad input) naming checkpoint, values and way out
void require_same_training(const std::string& folder, const CheckpointManifest& then, const CheckpointManifest& now,
                           const Model& model);

/// What differs without being in the way, for people: one line each.
[[nodiscard]] std::vector<std::string> differences(const CheckpointManifest& then, const CheckpointManifest& now);

/// Each rank reads what it needs. Collective.
/// @throws AgreedError (bad input) naming the file, if its layers are not those of the model
void load_checkpoint(Communicator& comm, Executor& executor, const std::string& folder,
                     const CheckpointManifest& manifest);

/// Of a file of schema sluice/weights; momentum stays zero.
/// @throws Error (bad input) naming the file, and all layers and parameters that are missing, too many or of another
///   shape
void load_weights(Executor& executor, const Model& model, const std::string& path);

}  // namespace sluice
