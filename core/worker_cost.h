#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/index.h"
#include "core/stage_pricing.h"

/// What one worker costs, before any plan exists, from its own layers and its place
/// alone: the figures that dynamic programming adds up. Where all ranks
/// are equal and linked by one class of links, the largest price over the
/// workers is bottleneck() of the stages; tests hold the two together.
/// One thing a worker cannot know: what others recompute. It sends what their backwards
/// read as if they recomputed none of it; where backwards are displaced and
/// recomputed, use least_sent_bytes for bounds and bottleneck() for the truth.
namespace sluice {

struct LayerWork {
  LayerId layer = 0;
  Work work = Work::forward;
  bool operator==(const LayerWork&) const = default;
};

/// Where a worker stands: a group of `replicas` ranks, replica i running micro-batches m mod replicas = i.
struct Seat {
  int replicas = 1;
  int ranks_from_here = 1;  ///< of this worker and all later ones
  int ranks = 1;            ///< of all workers, or more (memory is then counted safely)
};

/// What a worker does and holds as if it had one replica, whatever its seat.
struct WorkerLoad {
  double compute_s = 0;       ///< per micro-batch at speed 1
  double update_s = 0;        ///< per step at speed 1
  double received_bytes = 0;  ///< per micro-batch
  double sent_bytes = 0;
  double least_received_bytes = 0;    ///< whatever is recomputed here
  double least_sent_bytes = 0;        ///< whatever others recompute
  double weights_received_bytes = 0;  ///< per step
  double weights_sent_bytes = 0;
  double updated_bytes = 0;  ///< parameters updated here: all-reduced once a step by replicas

  /// Bytes held for as many micro-batches at once as the seat makes of each kind.
  struct Holdings {
    std::int64_t always = 0;   ///< parameters, gradients, momentum, workspace, and tensors held for one micro-batch
    std::int64_t stashed = 0;  ///< from the forward here to the backward here
    std::int64_t stashed_leaving = 0;    ///< likewise, and sent to others meanwhile
    std::int64_t arriving = 0;           ///< from the start of a receive to a use here
    std::int64_t leaving = 0;            ///< from where it is made to the end of its send
    std::int64_t gradients = 0;          ///< from the start of a gradient's receive to the backward here
    std::int64_t partial_gradients = 0;  ///< likewise, once for each reader elsewhere of the tensor
    std::int64_t delayed = 0;            ///< from the forward here to a backward-weight that the schedule delays
    std::int64_t handed = 0;   ///< from the backward-input here to the backward-weight, where schedules halve backward
    std::int64_t weights = 0;  ///< parameters and their packed copies once more, for each further version
    std::int64_t displaced = 0;  ///< of these, of layers with a work elsewhere, maybe at the first worker
    void add(const Holdings& other);
    bool operator==(const Holdings&) const = default;
  };
  Holdings holdings;
};

/// Prices workers of one profile under one schedule.
class WorkerCost {
 public:
  /// Keeps references: profile and cluster must outlive it. The link that prices traffic is
  /// intra-node if all ranks share a node, inter-node if every rank has its own; otherwise both together,
  /// since a rank may use both at once, so that prices on mixed clusters are lower bounds.
  WorkerCost(const Profile& profile, const Cluster& cluster, const Pricing& pricing);

  [[nodiscard]] const Profile& profile() const { return *profile_; }
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] const Pricing& pricing() const { return pricing_; }

  /// Seconds per micro-batch of each replica (of the busiest: it has ceil(M/r) of M micro-batches).
  [[nodiscard]] double compute_s(const WorkerLoad& load, const Seat& seat, double speed) const;
  /// Likewise of its link in the busier direction, weights and all-reduce included; 0 under compute_only.
  [[nodiscard]] double link_s(const WorkerLoad& load, const Seat& seat) const;
  /// Of each replica, never below memory_use() of the plan built.
  [[nodiscard]] std::int64_t memory_bytes(const WorkerLoad& load, const Seat& seat) const;
  /// The larger of compute and link; infinite if the memory of `rank` is exceeded.
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const;

 private:
  friend class WorkerTally;

  /// How often the works of a worker meet a tensor. A whole backward counts as backward-input and backward-weight.
  struct Meetings {
    int made = 0;         ///< by the forward of its producer
    int made_again = 0;   ///< by a recompute of its producer
    int read = 0;         ///< by forwards
    int read_again = 0;   ///< by recomputes
    int stash_read = 0;   ///< by backward-input and backward-weight
    int stash_late = 0;   ///< of these by a backward-weight apart
    int wanted = 0;       ///< its gradient, by backward-input and backward-weight of its producer
    int wanted_late = 0;  ///< of these by a backward-weight apart
    int summands = 0;     ///< of its gradient, by the backward-input of its readers
    void add(const Meetings& other, int sign);
  };
  struct Touch {
    TensorId tensor = kNone;
    Meetings meetings;
  };
  /// Sizes of which only the largest matters, numbered in ascending order.
  struct Sizes {
    std::vector<std::int64_t> distinct;
    std::vector<int> number;  ///< by layer or tensor
    explicit Sizes(const std::vector<std::int64_t>& sizes);
  };
  struct LayerTicks {
    std::int64_t forward = 0, backward_input = 0, backward_weight = 0, update = 0;
  };

  void collect_touches();
  void count_ticks();
  [[nodiscard]] std::span<const Touch> touches(LayerWork work) const {
    const std::size_t list = touch_list(work);
    return std::span(touches_).subspan(first_touch_[list], first_touch_[list + 1] - first_touch_[list]);
  }
  static std::size_t touch_list(LayerWork work) { return at(work.layer) * 5 + static_cast<std::size_t>(work.work); }
  [[nodiscard]] double busiest_share(const Seat& seat) const;
  [[nodiscard]] double version_bytes(const WorkerLoad::Holdings& held, const Seat& seat) const;

  const Profile* profile_;
  const Cluster* cluster_;
  Pricing pricing_;
  bool halves_backward_, delays_weights_;  ///< the schedule's
  int per_update_;                         ///< microbatches_per_update()
  bool asynchronous_;                      ///< micro-batches of successive steps are in flight together
  int least_in_flight_, most_in_flight_;   ///< microbatches_in_flight() for few and for many ranks
  int early_receives_;                     ///< receives that have started before their data can come
  bool mixed_links_ = false;
  double bandwidth_bytes_per_s_;
  std::vector<Touch> touches_;                   ///< of all works of all layers, one after the other
  std::vector<std::size_t> first_touch_;         ///< by touch_list()
  std::array<std::int64_t, 2> dataset_bytes_{};  ///< of all input tensors and of all labels, by TensorKind
  std::vector<Meetings> everywhere_;             ///< per tensor, over all works but recomputes
  Sizes workspaces_, gradients_;
  double tick_s_ = 1;  ///< a power of two: sums of times are exact, whatever their order
  std::vector<LayerTicks> ticks_;
};

/// loads_of() on the cost's profile and cluster: for who asks often.
[[nodiscard]] Loads loads_of(const WorkerCost& cost, const std::vector<Stage>& stages);

/// A worker's layers that come and go one by one, its load kept up to date at the
/// cost of the tensors that a layer touches. The load does not depend on the way that led to it.
class WorkerTally {
 public:
  explicit WorkerTally(const WorkerCost& cost);

  void add(LayerWork work) { move(work, +1); }  ///< recompute: where the layer's backward(-input) is here
  void remove(LayerWork work) { move(work, -1); }
  [[nodiscard]] bool empty() const { return works_ == 0; }
  [[nodiscard]] bool runs(LayerWork work) const;  ///< backward: both of its works
  [[nodiscard]] WorkerLoad load() const;

  /// True if a backward or recompute here reads what `layer` makes.
  [[nodiscard]] bool reads_after_forward(LayerId layer) const;

  /// Of the tensors alone that `layer` makes, as if a backward here read them: kept (or
  /// received) since the forward, or made again. No recompute saves more than the difference.
  [[nodiscard]] WorkerLoad load_of_tensors(LayerId layer, bool made_again) const;

 private:
  /// The largest of numbers that come and go.
  class Largest {
   public:
    explicit Largest(std::size_t numbers) : counts_(numbers), words_((numbers + 63) / 64) {}
    void count(int number, int sign);
    [[nodiscard]] int number() const;  ///< kNone of none

   private:
    std::vector<int> counts_;
    std::vector<std::uint64_t> words_;  ///< bit n: number n is there
  };
  struct Bytes {
    std::int64_t received = 0, sent = 0, least_received = 0, least_sent = 0;
    std::int64_t weights_received = 0, weights_sent = 0, updated = 0;
    WorkerLoad::Holdings holdings;
    /// What a backward-weight apart needs. It runs right after the backward-input of its micro-batch, unless the
    /// schedule delays it, or one of its layers is a stray: then it may have to wait as long as anything that arrives.
    WorkerLoad::Holdings late;
  };

  struct DatasetTensors {
    int count = 0;
    std::int64_t bytes = 0;
  };

  void move(LayerWork work, int sign);
  void count_times(LayerWork work, int sign);
  void count_layer(LayerId layer, int sign);
  void count_tensor(TensorId tensor, const WorkerCost::Meetings& here, int sign, Bytes& total) const;
  void count_shared(TensorId tensor, int sign);
  [[nodiscard]] WorkerLoad load_of(const Bytes& bytes) const;

  const WorkerCost* cost_;
  int works_ = 0, forwards_ = 0;
  int strays_ = 0;  ///< layers with their backward-weight here and their backward-input elsewhere
  std::int64_t compute_ticks_ = 0, update_ticks_ = 0;
  std::vector<std::uint8_t> works_of_;      ///< per layer: bits, see worker_cost.cpp
  std::vector<WorkerCost::Meetings> here_;  ///< per tensor
  Bytes total_;
  std::array<DatasetTensors, 2> read_{};  ///< by TensorKind
  Largest workspace_, scratch_;
};

}  // namespace sluice
