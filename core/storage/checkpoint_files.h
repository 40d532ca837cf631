#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "core/storage/weights_file.h"

/// Checkpoints: what training needs to go on, keyed by layer, whoever wrote it.
///
/// A checkpoint is the folder "<checkpoints>/step-000000000120": a file of layer states from each rank that updates
/// layers ("rank-000003.h5", schema sluice/checkpoint_state), and "manifest.h5" (schema sluice/checkpoint), which comes
/// last: without it there is no checkpoint. Files never change; each is written beside its name, synced and renamed.
/// The manifest holds length and checksum of each of the others, so damage is found before anything is used.
namespace sluice {

/// One trainable array and what its optimizer remembers, in logical order, row-major.
struct ParameterState {
  Shape shape;
  std::vector<float> weights;
  std::vector<float> momentum;
  bool operator==(const ParameterState&) const = default;
};

/// Layer name -> parameter name -> state: /weights/<layer>/<parameter> and /momentum/<layer>/<parameter>.
using LayerStates = std::map<std::string, std::map<std::string, ParameterState>>;

/// Without what optimizers remember.
[[nodiscard]] Weights weights_of(LayerStates states);

/// A file of layer states, as the manifest lists it.
struct StateFile {
  std::string name;  ///< in the checkpoint's folder
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;  ///< of all its bytes (core/checksum.h)
  std::vector<std::string> layers;
  bool operator==(const StateFile&) const = default;
};

/// Where training stands, and under which conditions it got there. Sample order and random numbers of every later step
/// follow from seed, samples, global batch and step (core/philox.h): there is no other random state. Asynchronous
/// pipelines are drained first, so that there is one version of the weights and no micro-batch under way.
struct CheckpointManifest {
  std::int64_t step = 0;   ///< steps done
  std::int64_t epoch = 0;  ///< that the next step belongs to
  std::int64_t seed = 0;
  std::int64_t samples = 0;  ///< of the training part
  std::int64_t microbatch = 0;
  int microbatches = 0;
  int threads = 0;  ///< per rank
  int ranks = 0;
  std::string device;    ///< fingerprint
  std::string model;     ///< its name
  std::string schedule;  ///< of the plan
  std::string command_line;
  std::map<std::string, std::string> settings;  ///< the resolved options
  std::vector<StateFile> files;
  [[nodiscard]] std::int64_t global_batch() const { return microbatch * microbatches; }
  bool operator==(const CheckpointManifest&) const = default;
};

/// "<checkpoints>/step-000000000120"
[[nodiscard]] std::string checkpoint_folder(const std::string& checkpoints, std::int64_t step);

/// Steps of all checkpoints that have a manifest, newest first; none if there is no such folder.
/// @throws Error (bad input) if the folder cannot be read.
[[nodiscard]] std::vector<std::int64_t> checkpoint_steps(const std::string& checkpoints);

/// "rank-000003.h5": what a rank calls its file.
[[nodiscard]] std::string state_name(int rank);

/// The bytes of a file of layer states, made in memory: no call of HDF5 is needed to write them.
/// @throws Error (bad input) if a name cannot be that of a dataset, or sizes do not match a shape.
[[nodiscard]] std::vector<std::byte> state_image(const LayerStates& states);

/// Writes an image as "<folder>/<name>", synced; makes the folder. From then on the folder is no checkpoint until
/// write_manifest. Safe to call from any thread: no HDF5.
/// @return its entry in the manifest, without layers
/// @throws Error (runtime fault), for instance when the disk is full; nothing is left under the name then.
[[nodiscard]] StateFile write_state(const std::string& folder, const std::string& name,
                                    std::span<const std::byte> image);

/// Layers that are in no need of `wanted` are skipped; all if it is empty.
/// @throws Error (bad input) naming file and dataset
[[nodiscard]] LayerStates read_state(const std::string& path, std::span<const std::string> wanted = {});

/// Compares length and checksum. @throws Error (bad input) naming the file, what was found and expected.
void verify_state(const std::string& folder, const StateFile& file);

/// Makes the folder's files a checkpoint, replacing one of the same step: what the manifest does not list is removed.
/// @throws Error (runtime fault), (bad input) if read_manifest would refuse it
void write_manifest(const std::string& folder, const CheckpointManifest& manifest);

/// @throws Error (bad input) naming file, dataset and value; also if a layer is in two files
[[nodiscard]] CheckpointManifest read_manifest(const std::string& folder);

/// A folder's name says of which step it is. @throws Error (bad input) if its manifest says otherwise
void require_step(const std::string& folder, const CheckpointManifest& manifest, std::int64_t step);

/// Whether the folder has a manifest.
[[nodiscard]] bool is_checkpoint(const std::string& folder);

/// The manifest of a checkpoint whose files all verify. @throws Error (bad input) naming the file that is damaged
[[nodiscard]] CheckpointManifest verified_manifest(const std::string& folder);

/// The newest checkpoint whose manifest can be read and whose files all verify; none if there is none.
/// @param pass_over  is told what is wrong with each newer one
[[nodiscard]] std::optional<CheckpointManifest> newest_checkpoint(
    const std::string& checkpoints, const std::function<void(const std::string&)>& pass_over);

/// Of the steps up to `newest`, removes all but the newest `keep` checkpoints, also what killed writers left. Those of
/// later steps may be being written.
/// @throws Error (runtime fault)
void prune_checkpoints(const std::string& checkpoints, std::int64_t newest, int keep);

/// Makes room for the steps after `newest`: what killed writers left of later ones is removed. Checkpoints that were
/// passed over are renamed ("step-000000000120.passed-over") and count no more: that one could not be read, for want of
/// memory or of a newer program, does not mean that it is lost. Nobody may be writing.
/// @return the new names
/// @throws Error (runtime fault)
[[nodiscard]] std::vector<std::string> clear_later_checkpoints(const std::string& checkpoints, std::int64_t newest);

/// The manifest goes first, so that what a kill leaves is no checkpoint. Nothing happens if there is no such folder.
/// Files that are not a checkpoint's stay, and the folder with them. Of a link to a folder the link alone goes.
/// @throws Error (runtime fault)
void remove_checkpoint(const std::string& folder);

}  // namespace sluice
