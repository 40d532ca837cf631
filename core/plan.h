#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/algorithm.h"
#include "core/cluster.h"
#include "core/group.h"
#include "core/profile.h"

namespace sluice {

enum class Work : std::uint8_t {
  forward,
  backward,  ///< backward-input and backward-weight at one owner
  backward_input,
  backward_weight,
  recompute,  ///< forward once more, just before the backward, at the backward's owners
};
[[nodiscard]] const char* to_string(Work work);
[[nodiscard]] bool updates_weights(Work work);  ///< backward and backward_weight: their owners apply the update

/// A set of layers whose `work` is done together, and by whom. Owner maps in
/// compressed form: every (layer, work) lies in exactly one stage; `backward`
/// stands for backward-input and backward-weight. Layers may lie in a recompute
/// stage besides: it has the index and the owners of the stage whose backward (or
/// backward-input) needs what they make, and that stage keeps none of it from the forward.
struct Stage {
  Work work = Work::forward;
  int index = 0;                ///< position in the pipeline; the 2 of a printed cell 2F0
  std::vector<LayerId> layers;  ///< ascending
  std::vector<Rank> owners;     ///< replica i runs micro-batches m with m mod owners.size() = i
  /// Forward: owners that do not update the layers hold their weights only while the stage runs: they fetch them in
  /// every program before its first micro-batch and drop them after its last (cooperative). Otherwise such owners
  /// keep a copy, renewed at the end of a step.
  bool fetches_weights = false;
  bool operator==(const Stage&) const = default;
};

enum class Payload : std::uint8_t {
  activation,        ///< tensor `tensor` of one micro-batch (outputs and auxiliaries alike)
  gradient,          ///< with respect to `tensor`, summed over the layers of backward stage `stage`
  weights,           ///< parameters of layer `layer` after the update
  weight_gradients,  ///< of layer `layer`, summed over the group's members (all-reduce)
};
[[nodiscard]] const char* to_string(Payload payload);
[[nodiscard]] CollectiveKind collective_of(Payload payload);  ///< weight_gradients: all-reduce; else multicast
[[nodiscard]] bool of_layer(Payload payload);  ///< weights and weight_gradients: of a layer, once per step

/// One kind of collective, a multicast or (weight_gradients) an all-reduce; with a micro-batch number, where
/// its payload has one, it is one call.
struct Transfer {
  Payload payload = Payload::activation;
  TensorId tensor = kNone;
  int stage = kNone;  ///< gradient: index into Plan::stages of the backward(-input) stage that made it
  LayerId layer = kNone;
  int group = 0;           ///< index into Plan::groups
  std::int64_t bytes = 0;  ///< per micro-batch (weights and their gradients: per step)
  Route route = {};        ///< as choose_routes() found best
  double predicted_s = 0;  ///< of one call on idle links (core/route_choice.h)
  auto operator<=>(const Transfer&) const = default;
};

enum class Op : std::uint8_t {
  load_input,
  load_labels,
  forward,
  backward,  ///< backward-input and backward-weight in one
  backward_input,
  backward_weight,
  recompute,
  multicast_start,
  multicast_wait,
  all_reduce_start,
  all_reduce_wait,
  optimizer_step,
};
[[nodiscard]] const char* to_string(Op op);
[[nodiscard]] bool is_compute(Op op);  ///< forward, the backwards and recompute
[[nodiscard]] bool is_load(Op op);     ///< of the dataset's tensors
[[nodiscard]] Op op_of(Work work);     ///< the instruction that does a stage's work for one micro-batch

/// One thing a rank does. Compute and optimizer_step name a stage,
/// communication names a transfer; all but optimizer steps and the transfers of weights and their gradients
/// name a micro-batch.
///
/// Asynchronous programs (fill, steady, drain) overlap in time: micro-batches and versions are relative to the
/// program's base, which is n M micro-batches and n times the versions made by one steady program in its n-th run since
/// the pipeline was filled; fill has base 0, drain the base of the steady program that would have been next. Weights of
/// a version below that of the fill are the fill's, and instructions of a micro-batch below the fill's first are left
/// out (a send of the steady program before is waited for, and there was none): absolute = base + relative, at least 0.
/// There optimizer steps and transfers of weights name the last micro-batch whose gradient the update takes, and a
/// negative micro-batch is never "none". See core/asynchronous.h.
struct Instruction {
  Op op = Op::forward;
  int stage = kNone;       ///< index into Plan::stages
  int transfer = kNone;    ///< index into Plan::transfers
  int microbatch = kNone;  ///< 0..M-1, kNone where there is none; asynchronous: relative, see above
  int version = 0;  ///< of weights: that computes use, an optimizer step makes, a transfer carries; synchronous: 0
  bool operator==(const Instruction&) const = default;
};

/// What every rank does, in order. Synchronous plans have "step" and "evaluate"; asynchronous ones "fill",
/// "steady" (M micro-batches; any number of times), "drain" and "evaluate".
struct Program {
  std::string name;
  std::vector<std::vector<Instruction>> ranks;
  bool operator==(const Program&) const = default;
};

/// Figures of a candidate, as the optimizer judged it.
struct PlanFigures {
  std::string schedule = {};
  std::string cuts = {};          ///< "joint", "independent" or "three"
  std::string forward_cuts = {};  ///< positions "3,7", one less than the workers; "-" where stages are no intervals
  std::string backward_cuts = {};
  std::string weight_cuts = {};  ///< of backward-weight; empty unless there are three cut vectors
  std::string replicas = {};     ///< ranks of each worker: "2,1,1"
  int workers = 0;               ///< that have work
  int recomputed_layers = 0;     ///< layers that run forward twice
  std::int64_t microbatch = 0;
  int microbatches = 0;
  double bottleneck_s = 0;    ///< per micro-batch
  std::string bound_by = {};  ///< the busiest resource: "compute of rank 3", "link of rank 1", "NIC of node01"
  double step_s = 0;
  std::int64_t peak_memory_bytes = 0;  ///< of the rank that holds most
  bool operator==(const PlanFigures&) const = default;
};

/// What to run, as data: owners, groups, and for each rank ordered instructions.
/// Verifier, simulator and executor walk the same lists. Self-contained: the
/// profile (with the model) and the cluster that it was made for are inside.
struct Plan {
  Profile profile;
  Cluster cluster;
  std::string schedule;
  int microbatches = 1;  ///< M: global batch = M x profile.model.microbatch
  ElementType compute_type = ElementType::float32;
  ElementType boundary_type = ElementType::float32;
  ElementType master_type = ElementType::float32;
  std::optional<Algorithm> multicast = {};   ///< asked for, whatever the model says; none: the best by the model
  std::optional<Algorithm> all_reduce = {};  ///< likewise
  /// The one rank that reads input and labels from the dataset, and sends them to all that need them; none: everyone
  /// who needs them reads them. It may own no stage.
  Rank data_reader = kNone;
  int receive_ahead = 1;  ///< compute instructions by which a receive starts before its data can arrive
  std::vector<Stage> stages;
  std::vector<Group> groups;
  std::vector<Transfer> transfers;
  std::vector<Program> programs;

  std::string method;        ///< "dp", "ilp", "exhaustive", "fixed"
  std::string status;        ///< "optimal", "feasible" or "timed out": how good its bottleneck is proven to be
  double lower_bound_s = 0;  ///< no plan of the search space has a smaller bottleneck
  PlanFigures figures;
  std::vector<PlanFigures> runners_up;
  std::map<std::string, std::string> options;  ///< the resolved options that made it
  bool operator==(const Plan&) const = default;
};

[[nodiscard]] const Program& program(const Plan& plan, const std::string& name);  ///< @throws Error (bad input)

/// Owner of `stage` for a micro-batch.
[[nodiscard]] Rank owner(const Stage& stage, int microbatch);

/// Of M micro-batches, how many run at one of the replicas; replica 0 has no fewer than any.
[[nodiscard]] int microbatches_of(int replica, int replicas, int microbatches);

/// True if the rank is one of the stage's owners.
[[nodiscard]] bool owns(Rank rank, const Stage& stage);

/// The stage's first and last layer, for people: "conv1 to pool2".
[[nodiscard]] std::string layer_names(const Plan& plan, const Stage& stage);

/// Of the tensor or the layer whose payload a transfer carries.
[[nodiscard]] const std::string& payload_name(const Plan& plan, const Transfer& transfer);

/// Identity of everything that decides what runs (not of figures, method and options). FNV-1a, 64 bits.
[[nodiscard]] std::uint64_t digest(const Plan& plan);

/// Checks indices and ranges of all tables, so that interpreters may trust them.
/// Whether the plan makes sense is the verifier's business.
/// @throws Error (bad input) naming table, row and value.
void validate(const Plan& plan);

/// The cell of a schedule grid: "2F0", "1B3"; "1I3", "1W3" for the two halves of a
/// backward, "1R3" for recompute; "+T4.0" and "-T4.0" for start and wait of
/// transfer 4, "U1" for an optimizer step. Asynchronous plans show versions, too: "2F0v3", "1U5v6", "+T4.5v6".
[[nodiscard]] std::string cell(const Plan& plan, const Instruction& instruction);

}  // namespace sluice
