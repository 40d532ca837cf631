#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/storage/checkpoint_files.h"
#include "core/storage/results_file.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/clock.h"
#include "runtime/engine/executor.h"

namespace sluice {

/// Writes checkpoints, one at a time. Each rank takes a snapshot of its saved_layers(), and a thread writes it
/// while training goes on. The ranks tell each other how far they are by notes that travel with the losses; when all
/// files are there, rank 0 writes the manifest and removes what is older than the newest `keep`.
/// A checkpoint that cannot be written is removed, and rank 0 warns of it; nothing else changes.
class CheckpointWriter {
 public:
  /// All must outlive it. What lies in `folder` half written is removed; what is newer than the checkpoint of step
  /// `newest`, and was passed over, is renamed. Collective.
  /// @param newest  step of the checkpoint that the run goes on from; 0: it begins anew
  /// @throws AgreedError (runtime fault) if `folder` cannot be changed
  CheckpointWriter(const Plan& plan, Communicator& comm, Executor& executor, const StepClock& clock, std::string folder,
                   int keep, std::int64_t newest);
  /// Waits for the thread.
  ~CheckpointWriter() = default;

  [[nodiscard]] bool busy() const { return underway_.has_value(); }

  /// Takes the snapshot. At all ranks, with the same manifest (whose files are filled in later), not while busy().
  void start(CheckpointManifest manifest);

  /// What this rank tells the others; as many at all ranks, none if not busy().
  [[nodiscard]] std::vector<double> notes();
  /// What all have told. Collective, since a rank that failed then says why.
  /// @return once all are done; `written` only counts at rank 0
  [[nodiscard]] std::optional<CheckpointRecord> hear(std::span<const double> notes);

  /// Step of the newest checkpoint that can be gone on from, 0: none. Only counts at rank 0.
  [[nodiscard]] std::int64_t newest() const { return newest_; }

 private:
  struct Underway {
    CheckpointManifest manifest;
    std::int64_t begin_ns = 0;
    double snapshot_s = 0;
    std::future<StateFile> file;
    std::optional<StateFile> written;  ///< what came of it
    std::string failure;               ///< or why nothing did
  };
  /// What a rank says of its file.
  struct FileNotes {
    double snapshot_s = 0;
    double bytes = 0;          ///< 0: it has nothing to write; below 0: it failed
    double high = 0, low = 0;  ///< halves of the checksum: a double holds 53 bits
  };
  void poll();
  [[nodiscard]] FileNotes own_notes() const;
  /// Of the lowest rank that failed, if one did. Collective.
  [[nodiscard]] std::string first_failure(const std::vector<FileNotes>& files);
  /// Rank 0's part. @return whether there is a checkpoint now
  [[nodiscard]] bool conclude(const std::vector<FileNotes>& files, const std::string& failure);
  [[nodiscard]] CheckpointManifest with_files(const std::vector<FileNotes>& files) const;

  const Plan& plan_;
  Communicator& comm_;
  Executor& executor_;
  const StepClock& clock_;
  std::string folder_;  ///< of all checkpoints
  int keep_;
  std::int64_t newest_;
  std::optional<Underway> underway_;
};

}  // namespace sluice
