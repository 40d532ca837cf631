#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/index.h"
#include "core/profile.h"

/// What a worker's share of a chain costs, before any plan exists: the figures
/// that solvers minimise. The simulator prices the finished plan instead.
///
/// Tensors are counted as unions, each once a direction and worker:
/// - received: tensors that another worker's forward makes and that a forward or
///   a backward of this worker reads; the gradients of tensors whose producer
///   runs backward here, from backwards elsewhere; weights of layers that run forward
///   here and are updated elsewhere (once a step: 1/M);
/// - sent: tensors made here that anybody else reads (a multicast leaves its root
///   once); gradients of tensors made elsewhere that backwards here contribute to;
///   weights updated here for a forward elsewhere (1/M).
/// Input and labels are read from the dataset by whoever needs them: no traffic.
/// On a DAG a tensor whose readers' backwards sit on several workers reaches its
/// owner as several partial gradients; they are counted as one.
namespace sluice {

/// Layers of one worker: forward [forward_begin, forward_end), backward likewise.
struct Share {
  LayerId forward_begin = 0;
  LayerId forward_end = 0;
  LayerId backward_begin = 0;
  LayerId backward_end = 0;
  [[nodiscard]] bool empty() const { return forward_begin == forward_end && backward_begin == backward_end; }
  bool operator==(const Share&) const = default;
};

/// Where a worker stands: its rank, and its place among the workers that have work.
struct ShareSeat {
  Rank rank = 0;
  int position = 0;
  int workers = 1;
};

/// What a worker does and holds.
struct ShareLoad {
  double compute_s = 0;       ///< per micro-batch at speed 1, 1/M of the update included
  double received_bytes = 0;  ///< per micro-batch, 1/M of the weights included
  double sent_bytes = 0;
  std::int64_t memory_bytes = 0;        ///< never below memory_use() of the plan built from the partition
  std::int64_t least_memory_bytes = 0;  ///< of any share that contains this one
};

/// Micro-batches whose stash a worker keeps. gpipe: M. 1f1b: min(M, workers - position)
/// for layers whose forward and backward are both here (the first of two owners decides,
/// so min(M, workers) is safe for displaced ones). sequential: 1.
[[nodiscard]] int share_in_flight(const std::string& schedule, int microbatches, int workers, int position);

/// The link class that prices a worker's traffic: intra-node if all ranks share a
/// node, inter-node if every rank has its own; otherwise the slower of the two.
[[nodiscard]] const LinkClass& pricing_link(const Cluster& cluster);

/// Prices shares of one profile on one cluster under one schedule.
class PartitionCost {
 public:
  /// Keeps references: profile and cluster must outlive it; both must be valid.
  PartitionCost(const Profile& profile, const Cluster& cluster, std::string schedule, int microbatches,
                bool compute_only);

  [[nodiscard]] int layers() const { return static_cast<int>(forward_touches_.size()); }
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }

  [[nodiscard]] ShareLoad load(const Share& share, const ShareSeat& seat) const;

  /// Seconds per micro-batch of the worker's compute or of its link in the busier
  /// direction, whichever is more (full duplex, perfectly overlapped); infinite if
  /// it does not fit the rank's memory.
  [[nodiscard]] double bottleneck_s(const ShareLoad& load, Rank rank) const;

  /// Seconds per micro-batch that `bytes` per micro-batch keep a link busy; 0 under compute_only.
  [[nodiscard]] double link_s(double bytes) const { return bytes / bandwidth_bytes_per_s_; }

  /// Compute of forward layers [0, end) or backward layers [0, end) [s at speed 1], 1/M of the update included.
  [[nodiscard]] double forward_prefix_s(LayerId end) const { return forward_s_[at(end)]; }
  [[nodiscard]] double backward_prefix_s(LayerId end) const { return backward_s_[at(end)]; }

 private:
  friend class ShareTally;

  /// How often a tensor is met by the layers of a share.
  struct Meetings {
    int made = 0;               ///< by a forward
    int forward_reads = 0;      ///< by forwards
    int backward_reads = 0;     ///< by backwards
    int gradient_wanted = 0;    ///< by the backward of its producer
    int gradient_summands = 0;  ///< from backwards of its readers
    void add(const Meetings& other, int sign);
  };
  struct Touch {
    TensorId tensor = kNone;
    Meetings meetings;
  };
  /// Largest value of a range of layers, in constant time.
  class RangeMaximum {
   public:
    RangeMaximum() = default;
    explicit RangeMaximum(std::vector<std::int64_t> values);
    [[nodiscard]] std::int64_t of(LayerId begin, LayerId end) const;  ///< 0 of none

   private:
    std::vector<std::vector<std::int64_t>> largest_;  ///< [j][l]: of layers [l, l + 2^j)
  };
  /// Bytes that one tensor adds to a worker.
  struct Traffic {
    std::int64_t received = 0, sent = 0, buffers = 0, least_buffers = 0;
  };

  /// Micro-batches for which a worker may hold one tensor at once.
  struct Depth {
    int own = 1;       ///< from the forward here to the backward here
    int arriving = 1;  ///< from the start of a receive to a use here, from whichever worker
    int gradient = 1;  ///< from the start of a gradient's receive to the backward here
    int leaving = 1;   ///< from where it is made to the end of its send
    int later_workers = 0;
  };
  [[nodiscard]] Depth depth(const ShareSeat& seat) const;
  [[nodiscard]] Traffic traffic(TensorId tensor, const Meetings& here, const Depth& depth) const;
  void collect_touches();
  void sum_prefixes();

  const Profile* profile_;
  const Cluster* cluster_;
  std::string schedule_;
  int microbatches_;
  int early_receives_;            ///< receives that have started before their data can come
  double bandwidth_bytes_per_s_;  ///< infinite under compute_only
  std::vector<std::vector<Touch>> forward_touches_, backward_touches_;  ///< per layer
  std::vector<Meetings> everywhere_;                                    ///< per tensor, over all layers
  std::vector<double> forward_s_, backward_s_;                          ///< prefix sums
  std::vector<std::int64_t> parameters_, packed_;                       ///< prefix sums [B]
  RangeMaximum workspace_;                                              ///< of either work [B]
  RangeMaximum gradients_;                                              ///< of one tensor that the layer makes [B]
};

/// One worker's share that grows and shrinks layer by layer, its load kept up to
/// date at the cost of the tensors that a layer touches.
class ShareTally {
 public:
  explicit ShareTally(const PartitionCost& cost);

  /// An empty share that begins at these layers.
  void restart(const ShareSeat& seat, LayerId forward_begin, LayerId backward_begin);
  void grow_forward();
  void grow_backward();
  void shrink_forward();
  void shrink_backward();
  void drop_first_backward();

  [[nodiscard]] const Share& share() const { return share_; }
  [[nodiscard]] ShareLoad load() const;

 private:
  void move(const std::vector<PartitionCost::Touch>& touches, int sign);

  const PartitionCost* cost_;
  Share share_;
  PartitionCost::Depth depth_;
  std::vector<PartitionCost::Meetings> here_;  ///< per tensor
  PartitionCost::Traffic total_;
};

}  // namespace sluice
