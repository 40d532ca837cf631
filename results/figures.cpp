#include "results/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/asynchronous.h"
#include "core/cost_model.h"
#include "core/index.h"
#include "core/prediction.h"
#include "core/statistics.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Steps that are no warm-up: all but the first, unless it is the only one.
template <typename Row>
std::vector<Row> warm(const std::vector<Row>& rows) {
  std::vector<Row> kept;
  for (const Row& row : rows)
    if (row.step != rows.front().step) kept.push_back(row);
  return kept.empty() ? rows : kept;
}

void add_steps(Figures& figures, const RunResults& results) {
  const std::vector<StepRecord>& steps = results.tables.steps;
  if (steps.empty()) return;
  figures.steps = std::ssize(steps);
  figures.epochs = steps.back().epoch + 1;
  figures.first_loss = steps.front().loss;
  figures.last_loss = steps.back().loss;
  std::vector<double> durations;
  for (const StepRecord& step : warm(steps)) durations.push_back(step.duration_s);
  figures.step_median_s = median(durations);
  figures.step_p95_s = quantile(durations, 0.95);
  const Plan& plan = results.header.plan;
  const auto batch = static_cast<double>(plan.microbatches * plan.profile.model.microbatch);
  if (figures.step_median_s > 0) figures.images_per_s = batch / figures.step_median_s;
}

/// Sums over the steps of one rank.
struct RankSums {
  std::int64_t steps = 0;
  std::int64_t duration_ns = 0, compute_ns = 0, update_ns = 0, load_ns = 0, communication_ns = 0, wait_ns = 0;
  LinkBytes sent_bytes{};
  std::int64_t peak_memory_bytes = 0;  ///< the largest
};

std::vector<RankSums> sums_by_rank(const std::vector<RankStep>& steps, std::size_t ranks) {
  std::vector<RankSums> all(ranks);
  for (const RankStep& step : steps) {
    RankSums& sums = all[at(step.rank)];
    ++sums.steps;
    sums.duration_ns += step.duration_ns;
    sums.compute_ns += step.compute_ns;
    sums.update_ns += step.update_ns;
    sums.load_ns += step.load_ns;
    sums.communication_ns += step.communication_ns;
    sums.wait_ns += step.wait_ns;
    for (std::size_t link = 0; link < sums.sent_bytes.size(); ++link) sums.sent_bytes[link] += step.sent_bytes[link];
    sums.peak_memory_bytes = std::max(sums.peak_memory_bytes, step.peak_memory_bytes);
  }
  return all;
}

/// Of the whole step. Runs of an asynchronous plan's steady program overlap: from a run's first instruction to its last
/// takes longer than from one run to the next.
void add_prediction(Figures& figures, const RunHeader& header) {
  if (header.predicted.ranks.empty()) {
    figures.predicted_step_s = header.plan.figures.step_s;
  } else if (asynchronous(header.plan)) {
    const Prediction prediction = predict_step(header.plan);
    figures.predicted_step_s = prediction.step_s;
    figures.predicted_bubble = prediction.bubble;
  } else {
    figures.predicted_step_s = static_cast<double>(makespan_ns(header.predicted)) * 1e-9;
    figures.predicted_bubble = bubble_fraction(header.predicted, training_program(header.plan));
  }
}

void add_prediction(RankFigures& figures, const RunHeader& header, double step_s) {
  if (header.predicted.ranks.empty()) return;
  const auto rank = at(figures.rank);
  const RankTimeline& predicted = header.predicted.ranks[rank];
  const auto& list = training_program(header.plan).ranks[rank];
  if (step_s > 0) figures.predicted_bubble = 1 - static_cast<double>(compute_ns(predicted, list)) * 1e-9 / step_s;
  figures.predicted_peak_memory_bytes = predicted.peak_memory_bytes;
}

void add_ranks(Figures& figures, const RunResults& results) {
  const std::vector<RankSums> all = sums_by_rank(warm(results.tables.ranks), results.header.places.size());
  std::int64_t computing_ns = 0, available_ns = 0;
  for (Rank rank = 0; rank < std::ssize(all); ++rank) {
    RankFigures row{.rank = rank, .host = results.header.places[at(rank)].host};
    const RankSums& sums = all[at(rank)];
    row.steps = sums.steps;
    row.peak_memory_bytes = sums.peak_memory_bytes;
    const auto share = [&](std::int64_t part_ns) {
      return sums.duration_ns > 0 ? static_cast<double>(part_ns) / static_cast<double>(sums.duration_ns) : 0;
    };
    row.compute = share(sums.compute_ns);
    row.update = share(sums.update_ns);
    row.load = share(sums.load_ns);
    row.communication = share(sums.communication_ns);
    row.wait = share(sums.wait_ns);
    row.bubble = sums.duration_ns > 0 ? 1 - row.compute : 0;
    add_prediction(row, results.header, figures.predicted_step_s);
    if (sums.compute_ns > 0) available_ns += sums.duration_ns;
    computing_ns += sums.compute_ns;
    figures.ranks.push_back(row);
  }
  if (available_ns > 0) figures.bubble = 1 - static_cast<double>(computing_ns) / static_cast<double>(available_ns);
}

void add_traffic(Figures& figures, const RunResults& results) {
  const std::vector<RankSums> all = sums_by_rank(results.tables.ranks, results.header.places.size());
  for (const LinkKind link : {LinkKind::intra_node, LinkKind::inter_node}) {
    TrafficFigures row{.link = link};
    const auto index = static_cast<std::size_t>(link);
    for (const RankTimeline& rank : results.header.predicted.ranks)
      row.predicted_bytes += static_cast<double>(rank.sent_bytes[index]);
    // Means rank by rank, since a killed run may lack the last steps of some.
    for (const RankSums& sums : all)
      if (sums.steps > 0)
        row.measured_bytes = row.measured_bytes.value_or(0) +
                             static_cast<double>(sums.sent_bytes[index]) / static_cast<double>(sums.steps);
    figures.traffic.push_back(row);
  }
}

std::string description(const Plan& plan, const Transfer& transfer) {
  const Group& group = plan.groups[at(transfer.group)];
  std::string others;
  for (const Rank rank : group.members)
    if (rank != group.root) others += text(others.empty() ? "" : ",", rank);
  const bool sums = collective_of(transfer.payload) == CollectiveKind::all_reduce;
  return text(to_string(transfer.payload), " ", payload_name(plan, transfer), ", ", group.root,
              sums ? " with " : " to ", others, " by ", to_string(transfer.route.algorithm));
}

/// By transfer: what its waits sent. Means instruction by instruction, since a killed run may lack some.
void add_transfers(Figures& figures, const RunResults& results) {
  const RunHeader& header = results.header;
  if (header.predicted.ranks.empty()) return;
  const Plan& plan = header.plan;
  const Program& step = training_program(plan);
  std::vector<TransferFigures> all(plan.transfers.size());
  const auto add = [](std::array<double, 2>& sum, const LinkBytes& bytes, std::int64_t times) {
    for (std::size_t link = 0; link < bytes.size(); ++link)
      sum[link] += static_cast<double>(bytes[link]) / static_cast<double>(times);
  };
  const auto predicted = [&](Rank rank, int index) -> const LinkBytes& {
    return header.predicted.ranks[at(rank)].instructions[at(index)].sent_bytes;
  };
  for (Rank rank = 0; rank < std::ssize(step.ranks); ++rank)
    for (int i = 0; i < std::ssize(step.ranks[at(rank)]); ++i)
      if (const int transfer = step.ranks[at(rank)][at(i)].transfer; transfer != kNone)
        add(all[at(transfer)].predicted_bytes, predicted(rank, i), 1);
  struct Recorded {
    std::int64_t times = 0;
    LinkBytes bytes{};  // of all times together: whole numbers, so that a mean of equals is exact
  };
  std::map<std::pair<Rank, int>, Recorded> instructions;
  std::int64_t differing = 0;
  for (const InstructionRecord& row : results.tables.timeline) {
    if (row.time.sent_bytes != predicted(row.rank, row.instruction)) ++differing;
    Recorded& recorded = instructions[{row.rank, row.instruction}];
    ++recorded.times;
    for (std::size_t link = 0; link < recorded.bytes.size(); ++link) recorded.bytes[link] += row.time.sent_bytes[link];
  }
  for (const auto& [place, recorded] : instructions) {
    const int transfer = step.ranks[at(place.first)][at(place.second)].transfer;
    if (transfer == kNone) continue;
    auto& counted = all[at(transfer)].counted_bytes;
    if (!counted) counted.emplace();
    add(*counted, recorded.bytes, recorded.times);
  }
  for (int t = 0; t < std::ssize(all); ++t) {
    all[at(t)].transfer = t;
    all[at(t)].what = description(plan, plan.transfers[at(t)]);
    if (all[at(t)].predicted_bytes != std::array<double, 2>{} ||
        all[at(t)].counted_bytes.value_or(std::array{0.0, 0.0}) != std::array{0.0, 0.0})
      figures.transfers.push_back(all[at(t)]);
  }
  std::stable_sort(figures.transfers.begin(), figures.transfers.end(), [](const auto& a, const auto& b) {
    return std::pair(a.predicted_bytes[1], a.predicted_bytes[0]) >
           std::pair(b.predicted_bytes[1], b.predicted_bytes[0]);
  });
  if (differing > 0)
    figures.flags.push_back(
        text(differing, " recorded instructions sent other bytes than predicted: see the transfers"));
}

bool is_staged(Op op) { return is_compute(op) || op == Op::optimizer_step; }

using WorkKey = std::pair<int, Op>;  ///< stage, op

std::map<WorkKey, std::vector<double>> measured_works(const RunResults& results) {
  std::map<WorkKey, std::vector<double>> durations;
  if (results.tables.timeline.empty()) return durations;
  const Program& step = training_program(results.header.plan);
  for (const InstructionRecord& row : warm(results.tables.timeline)) {
    const Instruction& instruction = step.ranks[at(row.rank)][at(row.instruction)];
    if (is_staged(instruction.op))
      durations[{instruction.stage, instruction.op}].push_back(
          static_cast<double>(row.time.end_ns - row.time.start_ns) * 1e-9);
  }
  return durations;
}

void add_stages(Figures& figures, const RunResults& results) {
  struct Predicted {
    std::set<Rank> ranks;
    double sum_s = 0;
    int count = 0;
  };
  const Plan& plan = results.header.plan;
  std::map<WorkKey, Predicted> works;
  const Program& step = training_program(plan);
  for (Rank rank = 0; rank < std::ssize(step.ranks); ++rank)
    for (const Instruction& instruction : step.ranks[at(rank)]) {
      if (!is_staged(instruction.op)) continue;
      Predicted& work = works[{instruction.stage, instruction.op}];
      work.ranks.insert(rank);
      work.sum_s += instruction_time(plan, instruction, rank);
      ++work.count;
    }
  auto measured = measured_works(results);
  for (const auto& [key, work] : works) {
    const auto& [row, op] = key;
    const Stage& stage = plan.stages[at(row)];
    const std::vector<double>& durations = measured[key];
    figures.stages.push_back({op,
                              row,
                              stage.index,
                              layer_names(plan, stage),
                              {work.ranks.begin(), work.ranks.end()},
                              work.sum_s / work.count,
                              median(durations),
                              std::ssize(durations)});
  }
}

void flag_oversubscription(Figures& figures, const RunHeader& header) {
  std::map<std::string, std::pair<int, int>> hosts;  // ranks and cores
  for (const RankPlace& place : header.places) {
    auto& [ranks, cores] = hosts[place.host];
    ++ranks;
    cores = std::max(cores, place.cores);
  }
  for (const auto& [host, load] : hosts) {
    const auto& [ranks, cores] = load;
    if (cores > 0 && ranks * header.threads > cores)
      figures.flags.push_back(text(host, " is oversubscribed: ", ranks, " ranks x ", header.threads, " threads on its ",
                                   cores, " cores: times are not those of a machine of its own"));
  }
}

void flag_prediction(Figures& figures) {
  const double difference = relative_difference(figures.predicted_step_s, figures.step_median_s);
  if (figures.steps == 0 || std::abs(difference) <= kBadPrediction) return;
  figures.flags.push_back(text("the step takes ", difference > 0 ? "longer" : "less long", " than predicted by ",
                               std::lround(100 * std::abs(difference)),
                               " %: measure profile and cluster again under the run's conditions"));
}

void flag_state(Figures& figures, const RunResults& results) {
  if (!results.merged) figures.flags.emplace_back("read from parts: the run has not ended, or it was killed");
  if (figures.steps == 0) figures.flags.emplace_back("no step was recorded");
  // Runs of steady right after a fill leave something out: a run that is drained early has no others.
  if (figures.steps > 0 && results.tables.ranks.empty() && asynchronous(results.header.plan))
    figures.flags.emplace_back(
        "every run of steady was too close to a fill to be recorded: train more steps, or evaluate less often, for "
        "times, bytes and memory as measured");
  if (!std::isfinite(figures.last_loss)) figures.flags.emplace_back("the last loss is not finite: the run diverged");
}

}  // namespace

double relative_difference(double predicted, double measured) {
  if (predicted == measured) return 0;
  return predicted > 0 ? (measured - predicted) / predicted : std::numeric_limits<double>::infinity();
}

Figures figures_of(const RunResults& results) {
  Figures figures;
  const RunHeader& header = results.header;
  add_steps(figures, results);
  if (!results.tables.evaluations.empty()) figures.evaluation = results.tables.evaluations.back();
  add_prediction(figures, header);
  add_ranks(figures, results);
  add_traffic(figures, results);
  add_transfers(figures, results);
  add_stages(figures, results);
  flag_state(figures, results);
  flag_oversubscription(figures, header);
  flag_prediction(figures);
  return figures;
}

}  // namespace sluice
