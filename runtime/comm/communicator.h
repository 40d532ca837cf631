#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/timeline.h"
#include "runtime/comm/collective_part.h"
#include "runtime/comm/faults.h"
#include "runtime/comm/placement.h"
#include "runtime/comm/session.h"
#include "runtime/device/device.h"

namespace sluice {

constexpr double kMostWaitLimit_s = 1e9;  ///< about 30 years

struct CommunicatorSettings {
  /// Larger payloads travel in several messages of at most this size [B], 1..INT_MAX.
  std::int64_t chunk_bytes = std::int64_t{1} << 30;
  /// A wait that lasts longer is taken for a hang and throws [s]; 0: wait for ever.
  double wait_limit_s = 300;
  [[nodiscard]] std::chrono::milliseconds wait_limit() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * wait_limit_s));
  }

  /// The defaults, with SLUICE_WAIT_LIMIT where it is set.
  /// @throws Error (usage) if that is not a number from 0 to kMostWaitLimit_s.
  [[nodiscard]] static CommunicatorSettings from_environment();
};

class Collective;

/// A collective in flight, as its starter holds it. Move-only. Wait for it before
/// its data is touched or freed. Default-constructed: done.
class Operation {
 public:
  Operation() = default;
  explicit Operation(std::shared_ptr<Collective> collective) : collective_(std::move(collective)) {}
  Operation(Operation&&) noexcept = default;
  Operation& operator=(Operation&&) noexcept = default;

  /// Never blocks and moves nothing: true once wait() would return at once.
  [[nodiscard]] bool done() const;

  /// Payload bytes of this rank's messages that are complete, by link class: all of them once it was waited for.
  [[nodiscard]] LinkBytes sent_bytes() const;
  [[nodiscard]] LinkBytes received_bytes() const;

 private:
  friend class Communicator;
  std::shared_ptr<Collective> collective_;
};

class MaxInFlight;

/// The largest values over all ranks, under way. Move-only. Take them with Communicator::finish_max, on all ranks or,
/// after a fault, on none.
class Maxima {
 public:
  Maxima(Maxima&&) noexcept = default;
  Maxima& operator=(Maxima&&) noexcept = default;

 private:
  friend class Communicator;
  explicit Maxima(std::shared_ptr<MaxInFlight> state) : state_(std::move(state)) {}
  std::shared_ptr<MaxInFlight> state_;
};

/// Ranks that talk to each other; MPI is called nowhere else. Non-blocking:
/// nothing moves but inside progress(), which every wait calls in a loop that
/// polls, then yields, then naps (more ranks than cores stay fast).
///
/// Any thread may call, but one at a time. A fault is for good: later calls of
/// progress() or a wait throw it again, and the job should end by call_off() and leave().
class Communicator {
 public:
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  /// All processes. Collective.
  [[nodiscard]] static Communicator world(
      const CommunicatorSettings& settings = CommunicatorSettings::from_environment());

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  /// Node number of each rank, numbered by first appearance; from MPI (shared-memory split), not from names.
  [[nodiscard]] const std::vector<int>& node_of_rank() const;
  /// One per node, by host name; unique: a second node of the same host is "host#2".
  [[nodiscard]] const std::vector<std::string>& node_names() const;

  /// "rank 2 (world rank 5 on node3)": for people who look for the process.
  [[nodiscard]] std::string describe(Rank rank) const;
  /// This rank as describe() names it in the communicator that was permuted last.
  [[nodiscard]] std::string whoami() const;
  [[nodiscard]] double wait_limit() const;  ///< [s]
  /// The wait limit from now on [s]; 0: wait for ever. Communicators that are permuted from this one later take it
  /// over.
  void set_wait_limit(double seconds);

  /// The same processes in another order: new rank r is old rank order[r]. Byte counts start at 0. Collective.
  /// @throws Error (runtime fault) if `order` is not a permutation.
  [[nodiscard]] Communicator permuted(std::span<const Rank> order) const;

  /// This rank's part in the collectives of a group that travel by `route`; its calls share it, one after the other or
  /// at once. Where the route is MPI's own, all members must call it, in the same order for all groups: it makes a
  /// communicator of the group.
  /// @param bytes    at least 0: the payload; of all-to-all: what one member has for one other
  /// @param cluster  where the ranks sit, the same at all members
  /// @throws Error (runtime fault) naming group, rank or bytes that do not fit.
  [[nodiscard]] std::shared_ptr<const CollectivePart> prepare(CollectiveKind kind, const Group& group,
                                                              const Route& route, std::int64_t bytes,
                                                              const Cluster& cluster);

  /// Starts this rank's part in a multicast or an all-reduce (float32 values, summed in place, in an order that follows
  /// from the part alone). Never blocks: messages are posted once `ready` is done, and passed on as soon as they are
  /// here. `tag` pairs the members' starts and must be unique among the operations in flight between two ranks.
  /// @param data   a multicast's payload at the root, its destination elsewhere; stays valid until waited for. Sums are
  ///   made by the processor.
  /// @param tag    0..max_tag()
  /// @param ready  when `data` may be read (root, addends) or overwritten (others)
  /// @throws Error (runtime fault) naming a tag that does not fit.
  [[nodiscard]] Operation start(std::shared_ptr<const CollectivePart> part, void* data, int tag, Event ready);

  /// The same for an all-to-all: block j of `send` becomes block i of `receive` at member j, where this is member i of
  /// the group. Both hold a block for each member.
  [[nodiscard]] Operation start_all_to_all(std::shared_ptr<const CollectivePart> part, const void* send, void* receive,
                                           int tag, Event ready);

  /// MPI's limit: a plan with more (transfer, micro-batch) pairs cannot run.
  [[nodiscard]] int max_tag() const;

  /// Returns when the payload (or the sum) is here and has been passed on.
  /// @throws TransferFault on an MPI error, a message of the wrong size
  ///   (naming rank, peer, tag, expected and received bytes), or when the wait
  ///   limit is over (naming what is missing).
  void wait(Operation& operation);

  /// Returns when the event is done, moving operations on meanwhile.
  /// @param what  is waited for, for people
  /// @throws Error (runtime fault) when the wait limit is over
  void wait(const Event& event, const char* what);

  /// From the next start on, every message is followed by a checksum of its bytes that the sender made, and the
  /// receiver compares it before it uses, adds or passes on anything. At all ranks or at none. Checksums are control,
  /// no payload.
  void verify_transfers();

  /// Moves all operations on; cheap; called between kernels.
  void progress();

  /// Payload bytes of the messages that are complete, by link class.
  [[nodiscard]] const LinkBytes& sent_bytes() const;
  [[nodiscard]] const LinkBytes& received_bytes() const;

  // Control: small, collective over all ranks, not counted as payload. They
  // move operations on while they wait, and keep the same wait limit.
  void barrier();
  /// Largest value of each element over all ranks, at all ranks.
  void all_max(std::span<double> values);
  /// The same in two halves, the first of which never blocks: nobody waits for the slowest rank before it needs the
  /// result. Counts as a collective where it is started.
  [[nodiscard]] Maxima start_max(std::vector<double> values);
  [[nodiscard]] std::vector<double> finish_max(Maxima maxima);
  /// Rank `root`'s text at all ranks (any length; the others' `text` is ignored).
  [[nodiscard]] std::string broadcast(const std::string& text, Rank root = 0);
  /// Every rank's values, rank after rank, at all ranks; equal counts.
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> values);

  /// For faults that the other ranks cannot learn of otherwise: tells them that the job ends with `exit_code` (their
  /// next wait or progress() throws AlarmHeard), and waits for their answers.
  /// @return for people: who does not answer, and who answers but waits for nobody
  [[nodiscard]] std::string call_off(int exit_code);
  /// Ends this process, with the others: after call_off() or AlarmHeard. Files are closed before.
  [[noreturn]] void leave(int exit_code);

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
