#include "tests/unit/schedule/examples.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/index.h"
#include "core/schedule.h"
#include "core/text.h"

namespace sluice::examples {
namespace {

using Random = std::mt19937_64;

int uniform(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
bool chance(Random& random, double probability) { return std::bernoulli_distribution(probability)(random); }

TensorId add_tensor(Model& model, const std::string& name, LayerId producer, TensorKind kind, std::int64_t bytes) {
  model.tensors.push_back({.name = name, .producer = producer, .kind = kind, .bytes = bytes});
  return static_cast<TensorId>(model.tensors.size()) - 1;
}

/// A layer's predecessors: the one before it, and in a DAG sometimes others or none of its own.
std::vector<TensorId> inputs_of(Random& random, LayerId layer, bool dag, const std::vector<TensorId>& outputs) {
  std::vector<TensorId> inputs;
  for (LayerId before = 0; before < layer; ++before)
    if (before == layer - 1 ? !dag || chance(random, 0.85) : dag && chance(random, 0.25))
      inputs.push_back(outputs[at(before)]);
  return inputs;
}

/// What a backward reads: a foreign layer its inputs; a real one some of its inputs, its output and its auxiliary.
LayerNeeds needs_of(Random& random, bool foreign, std::vector<TensorId> inputs, TensorId output, TensorId auxiliary) {
  LayerNeeds needs{.forward = inputs, .backward_input = {}, .backward_weight = {}};
  if (foreign) {
    needs.backward_input = needs.backward_weight = std::move(inputs);
    return needs;
  }
  if (chance(random, 0.6)) needs.backward_weight = inputs;
  if (chance(random, 0.3)) needs.backward_input.push_back(output);
  if (auxiliary != kNone) needs.backward_input.push_back(auxiliary);
  return needs;
}

Profile random_profile(Random& random) {
  Profile profile;
  Model& model = profile.model;
  model.name = "random";
  model.microbatch = 2;
  const int layers = uniform(random, 1, 8);
  const bool dag = chance(random, 0.5), foreign = chance(random, 0.4);
  const TensorId input = foreign ? kNone : add_tensor(model, "input", kDataset, TensorKind::input, 80);
  const TensorId labels = foreign ? kNone : add_tensor(model, "labels", kDataset, TensorKind::labels, 8);
  std::vector<TensorId> outputs;
  for (LayerId layer = 0; layer < layers; ++layer) {
    std::vector<TensorId> inputs = inputs_of(random, layer, dag, outputs);
    if (input != kNone && (layer == 0 || chance(random, 0.05))) inputs.push_back(input);
    if (labels != kNone && layer == layers - 1) inputs.push_back(labels);
    model.layers.emplace_back().name = text("layer", layer);
    const std::int64_t bytes = chance(random, 0.1) ? 0 : 4 * uniform(random, 1, 100);
    outputs.push_back(add_tensor(model, text("out", layer), layer, TensorKind::output, bytes));
    const TensorId auxiliary = foreign || chance(random, 0.6)
                                   ? kNone
                                   : add_tensor(model, text("aux", layer), layer, TensorKind::auxiliary, 12);
    model.needs.push_back(needs_of(random, foreign, std::move(inputs), outputs.back(), auxiliary));
    profile.costs.push_back({.forward_s = 1e-9 * uniform(random, 0, 20),
                             .backward_input_s = 1e-9 * uniform(random, 0, 40),
                             .update_s = 1e-9 * uniform(random, 0, 3),
                             .parameter_bytes = chance(random, 0.3) ? 0 : 4 * uniform(random, 1, 50)});
  }
  return profile;
}

Cluster random_cluster(Random& random, int ranks) {
  Cluster cluster;
  const int nodes = uniform(random, 1, 3);
  for (int node = 0; node < nodes; ++node) cluster.node_names.push_back(text("node", node));
  for (Rank rank = 0; rank < ranks; ++rank)
    cluster.ranks.push_back({.node = uniform(random, 0, nodes - 1), .speed = chance(random, 0.2) ? 0.5 : 1.0});
  cluster.intra_node = {.latency_s = 1e-9 * uniform(random, 0, 5), .bandwidth_bytes_per_s = 1e11};
  cluster.inter_node = {.latency_s = 1e-9 * uniform(random, 0, 20), .bandwidth_bytes_per_s = 1e10};
  return cluster;
}

/// Mostly everyone reads the dataset, sometimes one rank for all, whether it has stages or not.
Rank random_reader(Random& random, const Cluster& cluster) {
  return chance(random, 0.3) ? uniform(random, 0, static_cast<int>(cluster.ranks.size()) - 1) : kNone;
}

/// A position for every layer, none before those of the layers that it reads: on a DAG often no interval.
std::vector<int> random_positions(Random& random, const Model& model, int positions) {
  std::vector<int> position_of;
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
    int low = 0;
    for (const TensorId tensor : model.needs[at(layer)].forward)
      if (const LayerId producer = model.tensors[at(tensor)].producer; producer != kDataset)
        low = std::max(low, position_of[at(producer)]);
    position_of.push_back(chance(random, 0.5) ? low : uniform(random, low, positions - 1));
  }
  return position_of;
}

using Owners = std::vector<std::vector<Rank>>;  // by position

std::vector<Rank> shuffled_ranks(Random& random, int ranks) {
  std::vector<Rank> shuffled(at(ranks));
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  return shuffled;
}

/// Up to three ranks for each position; sometimes the same ones for several.
Owners random_owners(Random& random, int positions, int ranks) {
  std::vector<Rank> free = shuffled_ranks(random, ranks);
  Owners owners(at(positions));
  if (chance(random, 0.3)) {
    for (std::vector<Rank>& some : owners) {
      some = shuffled_ranks(random, ranks);
      some.resize(at(uniform(random, 1, std::min(3, ranks))));
    }
    return owners;
  }
  for (int k = 0; k < positions; ++k) {
    const int left = static_cast<int>(free.size()) - (positions - 1 - k);  // one for each position to come
    for (int r = uniform(random, 1, std::min(3, left)); r > 0; --r) {
      owners[at(k)].push_back(free.back());
      free.pop_back();
    }
  }
  return owners;
}

void append_stages(std::vector<Stage>& stages, Work work, const std::vector<int>& position_of, const Owners& owners) {
  for (int k = 0; k < std::ssize(owners); ++k) {
    Stage stage{.work = work, .index = 2 * k, .layers = {}, .owners = owners[at(k)]};
    for (LayerId layer = 0; layer < std::ssize(position_of); ++layer)
      if (position_of[at(layer)] == k) stage.layers.push_back(layer);
    if (!stage.layers.empty()) stages.push_back(std::move(stage));
  }
}

/// Some of the layers that make what a backward(-input) reads run again before it, with some others.
void append_recomputes(Random& random, std::vector<Stage>& stages, const Model& model) {
  const std::vector<Stage> given = stages;
  for (const Stage& stage : given) {
    if (stage.work != Work::backward && stage.work != Work::backward_input) continue;
    std::set<LayerId> layers;
    for (const LayerId layer : stage.layers)
      for (const auto* reads : {&model.needs[at(layer)].backward_input, &model.needs[at(layer)].backward_weight})
        for (const TensorId tensor : *reads)
          if (const LayerId producer = model.tensors[at(tensor)].producer; producer != kDataset && chance(random, 0.5))
            layers.insert(producer);
    if (chance(random, 0.2)) layers.insert(uniform(random, 0, static_cast<int>(model.layers.size()) - 1));
    if (!layers.empty() && chance(random, 0.7))
      stages.push_back({.work = Work::recompute,
                        .index = stage.index,
                        .layers = {layers.begin(), layers.end()},
                        .owners = stage.owners});
  }
}

}  // namespace

std::vector<Stage> random_stages(Random& random, const Model& model, int positions, int ranks) {
  const Owners owners = random_owners(random, positions, ranks);
  const std::vector<int> position_of = random_positions(random, model, positions);
  const auto others = [&] { return chance(random, 0.5) ? owners : random_owners(random, positions, ranks); };
  const auto elsewhere = [&] { return chance(random, 0.4) ? position_of : random_positions(random, model, positions); };
  std::vector<Stage> stages;
  append_stages(stages, Work::forward, position_of, owners);
  if (chance(random, 0.4)) {
    append_stages(stages, Work::backward_input, elsewhere(), others());
    append_stages(stages, Work::backward_weight, elsewhere(), others());
  } else {
    append_stages(stages, Work::backward, elsewhere(), others());
  }
  if (chance(random, 0.5)) append_recomputes(random, stages, model);
  return stages;
}

namespace {

/// Any ranks, in any order; a rank may have several forward stages.
std::vector<Rank> some_ranks(Random& random, int ranks) {
  std::vector<Rank> some(at(ranks));
  std::iota(some.begin(), some.end(), 0);
  std::shuffle(some.begin(), some.end(), random);
  some.resize(at(uniform(random, 1, ranks)));
  return some;
}

/// Recomputing a layer elsewhere than where it is updated needs weights that are kept.
void keep_weights_that_others_recompute(std::vector<Stage>& stages) {
  const auto both_have = [](const Stage& a, const Stage& b) {
    return std::find_first_of(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end()) != a.layers.end();
  };
  for (Stage& forward : stages)
    for (const Stage& again : stages)
      for (const Stage& backward : stages)
        if (again.work == Work::recompute && backward.work == Work::backward && again.owners != backward.owners &&
            both_have(forward, again) && both_have(again, backward))
          forward.fetches_weights = false;
}

std::vector<Stage> random_cooperative_stages(Random& random, const Model& model, int positions, int ranks) {
  const std::vector<int> position_of = random_positions(random, model, positions);
  std::vector<Stage> stages;
  append_stages(stages, Work::forward, position_of, Owners(at(positions), {0}));
  for (Stage& stage : stages) {
    stage.owners = some_ranks(random, ranks);
    stage.fetches_weights = chance(random, 0.8);
  }
  append_stages(stages, Work::backward, chance(random, 0.5) ? position_of : random_positions(random, model, positions),
                random_owners(random, positions, ranks));
  if (chance(random, 0.7)) append_recomputes(random, stages, model);
  keep_weights_that_others_recompute(stages);
  return stages;
}

std::vector<int> random_bounds(Random& random, int layers, int workers) {
  std::vector<int> bounds{0, layers};
  while (std::ssize(bounds) < workers + 1) bounds.push_back(uniform(random, 0, layers));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

}  // namespace

Profile chain(int layers, double forward_s, double backward_s) {
  Profile profile;
  Model& model = profile.model;
  model.name = "chain";
  model.microbatch = 1;
  TensorId input = add_tensor(model, "input", kDataset, TensorKind::input, 100);
  const TensorId labels = add_tensor(model, "labels", kDataset, TensorKind::labels, 4);
  for (LayerId layer = 0; layer < layers; ++layer) {
    model.layers.emplace_back().name = text("layer", layer);
    const TensorId output = add_tensor(model, text("out", layer), layer, TensorKind::output, 100);
    const TensorId auxiliary = add_tensor(model, text("aux", layer), layer, TensorKind::auxiliary, 10);
    model.needs.push_back({.forward = {input}, .backward_input = {auxiliary}, .backward_weight = {input}});
    if (layer == layers - 1) model.needs.back().forward.push_back(labels);
    profile.costs.push_back({.forward_s = forward_s, .backward_input_s = backward_s, .parameter_bytes = 40});
    input = output;
  }
  return profile;
}

Partition even_partition(int layers, int workers) {
  std::vector<int> bounds;
  for (int k = 0; k <= workers; ++k) bounds.push_back(layers * k / workers);
  return {bounds, bounds};
}

Plan textbook_plan(const std::string& schedule, int workers, int microbatches, double forward_s, double backward_s) {
  const int positions = positions_of(schedule_named(schedule).placement, workers, 2);
  const Profile profile = chain(positions, forward_s, backward_s);
  const Cluster cluster = uniform_cluster(1, workers, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = stages_of(even_partition(positions, positions), schedule, workers)});
}

Plan textbook_plan_in_halves(const std::string& schedule, int ranks, int microbatches, const WorkTimes& times) {
  const int positions = positions_of(schedule_named(schedule).placement, ranks, 1);
  Profile profile = chain(positions, times.forward_s, times.backward_input_s);
  for (LayerCost& cost : profile.costs) cost.backward_weight_s = times.backward_weight_s;
  const Cluster cluster = uniform_cluster(1, ranks, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = stages_of(even_partition(positions, positions), schedule, ranks)});
}

namespace {

/// Any algorithms, each multicast whole or in up to four segments, and sometimes one rank that reads the data for all.
Plan build_with_random_traffic(Random& random, PlanRequest request) {
  const auto any = [&](CollectiveKind kind) {
    const auto known = algorithms(kind);
    return known[at(uniform(random, 0, static_cast<int>(known.size()) - 1))];
  };
  request.multicast = any(CollectiveKind::multicast);
  request.all_reduce = any(CollectiveKind::all_reduce);
  request.data_reader = random_reader(random, request.cluster);
  Plan plan = build_plan(request);
  for (Transfer& transfer : plan.transfers)
    if (collective_of(transfer.payload) == CollectiveKind::multicast)
      transfer.route.segment_bytes = chance(random, 0.5) ? 0 : transfer.bytes / uniform(random, 1, 4) + 1;
  return plan;
}

}  // namespace

std::string cells(const Plan& plan, const std::vector<Instruction>& list) {
  std::string cells;
  for (const Instruction& instruction : list) cells += text(cells.empty() ? "" : " ", cell(plan, instruction));
  return cells;
}

std::string cells(const Plan& plan, const std::string& name, Rank rank) {
  return cells(plan, program(plan, name).ranks[at(rank)]);
}

Plan random_plan(std::uint64_t seed) {
  Random random(seed);
  const Profile profile = random_profile(random);
  const int positions = uniform(random, 1, 5);
  const Cluster cluster = random_cluster(random, positions + uniform(random, 0, 5));
  const char* schedules[] = {"1f1b", "1f1b", "gpipe", "sequential"};
  return build_with_random_traffic(
      random, {.profile = profile,
               .cluster = cluster,
               .schedule = schedules[uniform(random, 0, positions == 1 ? 3 : 2)],
               .microbatches = uniform(random, 1, 9),
               .stages = random_stages(random, profile.model, positions, static_cast<int>(cluster.ranks.size())),
               .compute_only = chance(random, 0.2)});
}

Plan random_placed_plan(const std::string& schedule, std::uint64_t seed) {
  Random random(seed);
  const Schedule& row = schedule_named(schedule);
  const Profile profile = random_profile(random);
  const int ranks = row.placement == Placement::both_ways ? 2 * uniform(random, 1, 3) : uniform(random, 1, 5);
  const int positions = positions_of(row.placement, ranks, uniform(random, 1, 4));
  Owners owners;
  for (int k = 0; k < positions; ++k) owners.push_back(owners_at(row.placement, k, ranks));
  const std::vector<int> forward = random_positions(random, profile.model, positions);
  const std::vector<int> backward = chance(random, 0.5) ? forward : random_positions(random, profile.model, positions);
  std::vector<Stage> stages;
  append_stages(stages, Work::forward, forward, owners);
  if (row.halves_backward || chance(random, 0.3)) {
    append_stages(stages, Work::backward_input, backward, owners);
    append_stages(stages, Work::backward_weight, backward, owners);
  } else {
    append_stages(stages, Work::backward, backward, owners);
  }
  for (Stage& stage : stages) stage.index /= 2;  // the placement counts positions without layers
  if (chance(random, 0.3)) append_recomputes(random, stages, profile.model);
  return build_with_random_traffic(random, {.profile = profile,
                                            .cluster = random_cluster(random, ranks),
                                            .schedule = schedule,
                                            .microbatches = uniform(random, 1, 12),
                                            .stages = std::move(stages)});
}

Plan random_cooperative_plan(std::uint64_t seed) {
  Random random(seed);
  const Profile profile = random_profile(random);
  const int positions = uniform(random, 1, 5);
  const int ranks = positions + uniform(random, 0, 2);
  const Cluster cluster = random_cluster(random, ranks);
  return build_with_random_traffic(random,
                                   {.profile = profile,
                                    .cluster = cluster,
                                    .schedule = "cooperative",
                                    .microbatches = uniform(random, 1, 9),
                                    .stages = random_cooperative_stages(random, profile.model, positions, ranks),
                                    .compute_only = chance(random, 0.2)});
}

namespace {

/// Forward bounds, and with probability `joint` the same for backward.
Partition random_partition(Random& random, int layers, int workers, double joint) {
  Partition partition;
  partition.forward_bounds = random_bounds(random, layers, workers);
  partition.backward_bounds = chance(random, joint) ? partition.forward_bounds : random_bounds(random, layers, workers);
  return partition;
}

}  // namespace

Plan random_interval_plan(std::uint64_t seed) {
  Random random(seed);
  const Profile profile = random_profile(random);
  const int layers = static_cast<int>(profile.model.layers.size());
  const int workers = uniform(random, 1, 5);
  const Cluster cluster = random_cluster(random, workers + uniform(random, 0, 1));
  const Partition partition = random_partition(random, layers, workers, 0.4);
  return build_with_random_traffic(random, {.profile = profile,
                                            .cluster = cluster,
                                            .schedule = chance(random, 0.5) ? "gpipe" : "1f1b",
                                            .microbatches = uniform(random, 1, 9),
                                            .stages = stages_of(partition),
                                            .compute_only = chance(random, 0.2)});
}

Plan random_asynchronous_plan(std::uint64_t seed) {
  Random random(seed);
  const Profile profile = random_profile(random);
  const int layers = static_cast<int>(profile.model.layers.size());
  const int workers = uniform(random, 1, 5);
  const Cluster cluster = random_cluster(random, workers + uniform(random, 0, 1));
  const Partition partition = random_partition(random, layers, workers, 0.3);
  const bool late = chance(random, 0.5);
  return build_with_random_traffic(
      random, {.profile = profile,
               .cluster = cluster,
               .schedule = late ? "pipedream-2bw" : "pipedream",
               .microbatches = late ? uniform(random, workers, workers + 3) : uniform(random, 1, 6),
               .stages = stages_of(partition),
               .compute_only = chance(random, 0.2)});
}

}  // namespace sluice::examples
