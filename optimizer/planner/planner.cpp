#include "optimizer/planner/planner.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/simulator.h"
#include "core/text.h"
#include "core/verifier.h"

namespace sluice {
namespace {

/// The rank of a plan that needs most of its memory.
struct Fullest {
  Rank rank = 0;
  std::int64_t need = 0;  ///< [B]
  std::int64_t limit = kUnlimitedMemory;
  [[nodiscard]] double fullness() const { return static_cast<double>(need) / static_cast<double>(limit); }
};

Fullest fullest_rank(const Plan& plan) {
  Fullest fullest;
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
    const Fullest candidate{rank, memory_use(plan, rank).total(), plan.cluster.ranks[at(rank)].memory_bytes};
    if (candidate.fullness() > fullest.fullness()) fullest = candidate;
  }
  return fullest;
}

std::string gibibytes(std::int64_t bytes) {
  std::ostringstream stream;
  stream << std::setprecision(4) << static_cast<double>(bytes) / (1 << 30) << " GiB";
  return stream.str();
}

/// Positions between workers: "3,7".
std::string cuts_text(const std::vector<int>& bounds) {
  std::string cuts;
  for (std::size_t k = 1; k + 1 < bounds.size(); ++k) cuts += text(k > 1 ? "," : "", bounds[k]);
  return cuts;
}

class Planner {
 public:
  explicit Planner(const PlannerRequest& request)
      : request_(request),
        search_(request.search),
        unlimited_(with_unlimited_memory(search_.cluster)),
        cost_(search_.profile, unlimited_, search_.schedule, search_.microbatches, search_.compute_only) {}

  PlannerResult run() {
    refuse_what_cannot_be();
    const bool fixed = request_.forward_cuts || request_.backward_cuts;
    fixed ? judge(fixed_partition()) : search();
    if (!best_) throw does_not_fit();
    Plan& plan = *best_;
    plan.method = fixed ? "fixed" : to_string(search_.method);
    plan.status = is_optimal(plan.figures.bottleneck_s) ? "optimal" : "feasible";
    std::stable_sort(others_.begin(), others_.end(),
                     [&](const PlanFigures& a, const PlanFigures& b) { return is_better(a, b); });
    plan.runners_up = std::move(others_);
    explain(plan);
    return {std::move(plan), std::move(notes_)};
  }

 private:
  [[nodiscard]] int ranks() const { return static_cast<int>(search_.cluster.ranks.size()); }
  [[nodiscard]] int layers() const { return cost_.layers(); }

  void refuse_what_cannot_be() const {
    if (search_.schedule == "sequential" && ranks() > 1)
      throw infeasible(text("schedule sequential runs on one rank, not on ", ranks(), ": use gpipe or 1f1b"));
    if (request_.exactly && layers() < ranks())
      throw infeasible(text("--exactly wants work for each of ", ranks(), " ranks, but the model has ", layers(),
                            " layers: use fewer ranks, or leave --exactly out"));
  }

  /// The bounds that a list of cuts stands for.
  [[nodiscard]] std::vector<int> bounds_of(const std::vector<int>& cuts, const char* work) const {
    std::vector<int> bounds{0};
    for (const int cut : cuts) {
      if (cut < bounds.back() || cut > layers())
        throw usage_error(text(work, " cut ", cut, " is not between ", bounds.back(), " and the ", layers(),
                               " layers: cuts are positions that do not descend"));
      bounds.push_back(cut);
    }
    bounds.push_back(layers());
    return bounds;
  }

  [[nodiscard]] Partition fixed_partition() const {
    const std::vector<int>& forward = request_.forward_cuts ? *request_.forward_cuts : *request_.backward_cuts;
    const std::vector<int>& backward = request_.backward_cuts ? *request_.backward_cuts : *request_.forward_cuts;
    if (forward.size() != backward.size())
      throw usage_error(text(forward.size(), " forward cuts but ", backward.size(), " backward cuts: give as many"));
    Partition partition{bounds_of(forward, "forward"), bounds_of(backward, "backward")};
    if (search_.cuts == Cuts::joint && forward != backward)
      throw usage_error("--cuts joint, but the forward and backward cuts differ");
    if (request_.exactly && used_workers(partition) < ranks())
      throw infeasible(text("--exactly wants work for each of ", ranks(), " ranks, but the cuts give work to ",
                            used_workers(partition)));
    return partition;
  }

  void search() {
    SearchRequest search = search_;
    if (request_.exactly) search.least_workers = ranks();
    candidates_ = find_candidates(search);
    for (const Partition& partition : candidates_.partitions) judge(partition);
  }

  /// Builds a candidate. The best that fits is kept, and the figures of the
  /// others; if none fits, how full the least full one is.
  void judge(const Partition& partition) {
    Plan plan = build_plan({search_.profile, search_.cluster, search_.schedule, search_.microbatches,
                            stages_of(partition), search_.compute_only});
    const Fullest fullest = fullest_rank(plan);
    if (fullest.need > fullest.limit) {
      if (!least_full_ || fullest.fullness() < least_full_->fullness()) least_full_ = fullest;
      return;
    }
    if (const auto defect = verify(plan))
      throw runtime_fault(text("a plan made here is refused, which is a fault of this program: ", to_string(*defect)));
    plan.figures = figures_of(plan, partition);
    if (best_ && !is_better(plan.figures, best_->figures)) {
      others_.push_back(plan.figures);
      return;
    }
    if (best_) others_.push_back(best_->figures);
    best_ = std::move(plan);
  }

  [[nodiscard]] PlanFigures figures_of(const Plan& plan, const Partition& partition) const {
    const bool joint = partition.forward_bounds == partition.backward_bounds;
    return {.cuts = to_string(joint ? Cuts::joint : Cuts::independent),
            .forward_cuts = cuts_text(partition.forward_bounds),
            .backward_cuts = cuts_text(partition.backward_bounds),
            .workers = used_workers(partition),
            .bottleneck_s = bottleneck_s(cost_, partition),
            .step_s = static_cast<double>(makespan_ns(simulate(plan))) * 1e-9};
  }

  [[nodiscard]] bool is_better(const PlanFigures& a, const PlanFigures& b) const {
    const bool by_bottleneck = request_.goal == Goal::bottleneck || search_.compute_only;
    const auto key = [&](const PlanFigures& f) {
      return by_bottleneck ? std::pair(f.bottleneck_s, f.step_s) : std::pair(f.step_s, f.bottleneck_s);
    };
    return key(a) < key(b);
  }

  [[nodiscard]] bool is_optimal(double bottleneck) const {
    return bottleneck == candidates_.optimum_s || bottleneck <= candidates_.unlimited_optimum_s;
  }

  [[nodiscard]] Error does_not_fit() const {
    if (!least_full_)
      return infeasible(text("there is no way to give each of ", ranks(), " ranks work with ", layers(), " layers"));
    const bool fixed = request_.forward_cuts || request_.backward_cuts;
    return infeasible(text("rank ", least_full_->rank, " needs ", gibibytes(least_full_->need), " but has ",
                           gibibytes(least_full_->limit), " (",
                           fixed ? "with the given cuts" : "in the least full plan found", ", ", search_.schedule, ", ",
                           search_.microbatches, " micro-batches): use more ranks, smaller or fewer micro-batches",
                           search_.schedule == "gpipe" ? ", schedule 1f1b" : "", ", or more memory"));
  }

  void explain(const Plan& plan) {
    const PlanFigures& figures = plan.figures;
    if (figures.workers < ranks()) notes_.push_back(text(figures.workers, " of ", ranks(), " ranks have work"));
    if (plan.method == "fixed") return;
    if (search_.cuts == Cuts::independent && figures.cuts == "joint" && figures.workers > 1)
      notes_.push_back("independent cuts gain nothing here: the best plan has joint cuts");
    if (plan.status == "feasible") notes_.push_back(why_not_optimal(figures.bottleneck_s));
  }

  [[nodiscard]] std::string why_not_optimal(double bottleneck) const {
    if (bottleneck > candidates_.optimum_s)
      return text("chosen for its step time: the least possible bottleneck is ", candidates_.optimum_s, " s");
    return "fits memory by the exact count, though not by the safe one of the search: a better plan may exist";
  }

  const PlannerRequest& request_;
  const SearchRequest& search_;
  Cluster unlimited_;  ///< to price what fits by the exact count though not by the safe one
  PartitionCost cost_;
  Candidates candidates_;
  std::optional<Plan> best_;
  std::vector<PlanFigures> others_;
  std::optional<Fullest> least_full_;
  std::vector<std::string> notes_;
};

}  // namespace

PlannerResult make_plan(const PlannerRequest& request) { return Planner(request).run(); }

}  // namespace sluice
