#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/cost_model.h"
#include "core/timeline.h"
#include "runtime/device/device.h"

namespace sluice {

/// Starts and ends MPI: once a process, around everything else.
class MpiSession {
 public:
  /// Asks for MPI_THREAD_MULTIPLE, needs SERIALIZED, sets MPI_ERRORS_RETURN.
  /// @throws Error (usage) if MPI's size differs from the Slurm step's task count: names the --mpi fix.
  MpiSession();
  /// Gives MPI_Finalize a bounded time, then says so and leaves with `exit_code` (see finish()).
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// The code that a stuck MPI_Finalize must still leave with.
  void finish(int exit_code) { exit_code_ = exit_code; }

  [[nodiscard]] static std::string library_version();

 private:
  int exit_code_ = 0;
};

/// A collective in flight. Move-only; must be waited for before it is destroyed.
class Operation;

/// Ranks that talk to each other, and the only place that calls MPI. Non-blocking:
/// nothing moves but inside progress(), which every wait calls in a loop that
/// polls, then yields, then naps (more ranks than cores stay fast).
class Communicator {
 public:
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  [[nodiscard]] static Communicator world();

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  /// Node number of each rank, numbered by first appearance; from MPI (shared-memory split), not from names.
  [[nodiscard]] const std::vector<int>& node_of_rank() const;
  [[nodiscard]] const std::vector<std::string>& node_names() const;

  /// The same processes in another order: new rank r is old rank order[r].
  [[nodiscard]] Communicator permuted(std::span<const Rank> order) const;

  /// Starts this rank's part in a multicast along `edges` (multicast_edges; this
  /// rank must appear in them). Never blocks: sends begin once `ready` is done,
  /// receives are posted at once. `tag` pairs the members' starts; it must be
  /// unique among the operations in flight between two ranks.
  /// @param data  the payload at the root (its first edge's sender), the destination elsewhere; stays valid until
  /// waited for
  /// @param ready when `data` may be read (root) or overwritten (others)
  [[nodiscard]] Operation start_multicast(std::span<const Edge> edges, void* data, std::int64_t bytes, int tag,
                                          Event ready);

  /// Returns when the payload is here and has been passed on.
  /// @throws Error (runtime fault) on an MPI error or a message of the wrong size, naming rank, peer, tag and bytes.
  void wait(Operation& operation);

  /// Moves all operations on; cheap; called between kernels.
  void progress();

  /// Payload bytes since the start, by link class.
  [[nodiscard]] const LinkBytes& sent_bytes() const;
  [[nodiscard]] const LinkBytes& received_bytes() const;

  // Control: small, collective over all ranks, not counted as payload.
  void barrier();
  /// Largest value of each element over all ranks, at all ranks.
  void all_max(std::span<double> values);
  /// Rank `root`'s text at all ranks (any length).
  [[nodiscard]] std::string broadcast(const std::string& text, Rank root = 0);
  /// Every rank's values, rank after rank, at all ranks; equal counts.
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> values);

  /// Ends the whole job at once: for faults that the other ranks cannot learn of otherwise.
  [[noreturn]] void abort(int exit_code);

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// An order of the world's ranks that reproduces a plan's grouping by node:
/// result[plan rank] = world rank. Plan nodes are matched to real nodes of the same size.
/// Empty if there is none.
[[nodiscard]] std::vector<Rank> match_placement(std::span<const int> planned_nodes, std::span<const int> actual_nodes);

}  // namespace sluice
