#include "optimizer/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/index.h"
#include "core/schedule.h"
#include "core/text.h"
#include "optimizer/planner/auto_schedule.h"
#include "optimizer/planner/candidates.h"
#include "optimizer/planner/cooperative_cuts.h"
#include "optimizer/planner/placed_stages.h"
#include "optimizer/planner/score.h"
#include "optimizer/schedule/build_plan.h"
#include "optimizer/schedule/cooperative.h"

namespace sluice {
namespace {

std::string gibibytes(std::int64_t bytes) {
  std::ostringstream stream;
  stream << std::setprecision(4) << static_cast<double>(bytes) / (1 << 30) << " GiB";
  return stream.str();
}

std::string percent(double share) {
  std::ostringstream stream;
  stream << std::setprecision(3) << 100 * share << " %";
  return stream.str();
}

bool by_bottleneck(const PlannerRequest& request) { return request.goal == Goal::bottleneck || request.compute_only; }

/// What plans of one global batch are ranked by, smaller is better.
std::pair<double, double> rank_key(const PlannerRequest& request, const PlanFigures& figures) {
  const double work_s = figures.bottleneck_s * figures.microbatches;
  return by_bottleneck(request) ? std::pair(work_s, figures.step_s) : std::pair(figures.step_s, work_s);
}

/// Plans one profile with one M.
class Planner {
 public:
  Planner(const PlannerRequest& request, const Profile& profile, int microbatches)
      : request_(request),
        problem_{profile,
                 request.cluster,
                 {request.schedule, microbatches, request.compute_only, request.multicast, request.all_reduce},
                 request.space,
                 request.data_reader} {}

  PlannerResult run() {
    refuse_what_cannot_be();
    if (request_.fixed_stages)
      judge_fixed();
    else if (is_cooperative())
      search_cooperative();
    else if (is_placed_here())
      search_placed();
    else if (request_.cost == CostModel::sluice)
      search();
    else
      search_as_others_do();
    if (!best_) throw does_not_fit();
    Plan& plan = *best_;
    std::stable_sort(others_.begin(), others_.end(), [&](const PlanFigures& a, const PlanFigures& b) {
      return rank_key(request_, a) < rank_key(request_, b);
    });
    plan.runners_up = std::move(others_);
    plan.method = request_.fixed_stages                  ? "fixed"
                  : is_placed_here() || is_cooperative() ? "local search"
                                                         : to_string(solved_.method);
    plan.lower_bound_s = bound_s_;
    plan.status = status();
    explain(plan);
    const double cost_s = is_foreign() ? solved_.solution.price : plan.figures.bottleneck_s;
    return {std::move(plan), std::move(notes_), cost_s};
  }

 private:
  [[nodiscard]] int ranks() const { return static_cast<int>(problem_.cluster.ranks.size()); }
  [[nodiscard]] bool is_foreign() const { return request_.cost != CostModel::sluice && !request_.fixed_stages; }
  [[nodiscard]] int layers() const { return static_cast<int>(problem_.profile.model.layers.size()); }

  void refuse_what_cannot_be() const {
    const SearchSpace& space = problem_.space;
    if (has_schedule(request_.cost)) refuse_what_only_msr_knows();
    if (problem_.pricing.schedule == "sequential" && ranks() > 1)
      throw infeasible(text("schedule sequential runs on one rank, not on ", ranks(), ": use gpipe or 1f1b"));
    require_split_backward(problem_.profile, problem_.pricing.schedule);
    if (asynchronous(problem_.pricing.schedule)) refuse_what_asynchronous_schedules_lack();
    if (is_cooperative()) refuse_what_cooperative_lacks();
    const bool three = space.cuts == Cuts::three || fixes_weight_cuts();
    if (three && !problem_.profile.split_backward)
      throw infeasible(
          text("three cut vectors need backward-input and backward-weight apart, which the profile does not have: ",
               fixes_weight_cuts() ? "leave --weight-cuts out" : "use --cuts independent",
               ", or use a profile of sluice-run profile"));
    const int works_a_layer = space.cuts == Cuts::three ? 3 : space.cuts == Cuts::joint && !space.free_backward ? 1 : 2;
    const int works = layers() * works_a_layer;
    if (space.exactly && space.most_replicas == 1 && works < ranks())
      throw infeasible(text("--exactly wants work for each of ", ranks(), " ranks, but the model has ", layers(),
                            " layers, ", works, " works under ", to_string(space.cuts),
                            " cuts: use fewer ranks, allow --replicas, or leave --exactly out"));
  }

  void refuse_what_asynchronous_schedules_lack() const {
    const SearchSpace& space = problem_.space;
    const std::string& schedule = problem_.pricing.schedule;
    if (space.most_replicas > 1 || space.recompute || space.free_backward || space.cuts == Cuts::three)
      throw infeasible(text("schedule ", schedule,
                            " knows joint and independent cuts alone: leave --replicas, --recompute",
                            ", --free-backward and --cuts three out, or use 1f1b"));
    if (schedule == "pipedream-2bw" && problem_.pricing.microbatches < ranks() && !request_.fixed_stages)
      throw infeasible(text("schedule pipedream-2bw needs at least as many micro-batches as ranks, ", ranks(),
                            ", but has ", problem_.pricing.microbatches,
                            ": raise --microbatches or --global-batch, or use pipedream"));
  }

  [[nodiscard]] bool is_cooperative() const {
    return schedule_named(problem_.pricing.schedule).placement == Placement::cooperative;
  }

  void refuse_what_cooperative_lacks() const {
    const SearchSpace& space = problem_.space;
    const char* lacking = space.cuts == Cuts::three            ? "--cuts three"
                          : space.most_replicas > 1            ? "--replicas"
                          : space.ideals                       ? "--stages ideals"
                          : space.free_backward                ? "--free-backward"
                          : request_.cost != CostModel::sluice ? "--cost of others"
                          : request_.method != Method::automatic && request_.method != Method::dp
                              ? "--method other than dp"
                              : nullptr;
    if (lacking != nullptr)
      throw infeasible(
          text("schedule cooperative has intervals of layers, one rank each, for whole backwards, and does "
               "not combine with ",
               lacking, ": leave it out"));
  }

  /// Each cut is moved as long as that helps.
  void search_cooperative() {
    constexpr std::size_t kMostJudged = 200;
    const Model& model = problem_.profile.model;
    const auto judge_cuts = [&](const std::vector<int>& bounds) { judge(cooperative_stages(model, bounds)); };
    for (const std::vector<int>& bounds : cooperative_cuts(problem_)) judge_cuts(bounds);
    const auto in_time = [&, until = halfway()] {
      return judged_.size() < kMostJudged && std::chrono::steady_clock::now() < until;
    };
    for (std::size_t known = 0; best_ && known != judged_.size() && in_time();) {
      known = judged_.size();
      for (const std::vector<int>& bounds : neighbours(cooperative_bounds(best_->stages)))
        if (in_time()) judge_cuts(bounds);
    }
    bound_s_ = compute_bound(problem_);
    solved_.method = Method::dp;
    solved_.solution.lower_bound = bound_s_;
  }

  void judge_fixed() {
    if (is_cooperative())
      return judge(cooperative_stages(problem_.profile.model, joint_bounds(*request_.fixed_stages)));
    if (problem_.space.cuts == Cuts::joint && describe_stages(*request_.fixed_stages).cuts != to_string(Cuts::joint))
      throw usage_error("--cuts joint, but the fixed cuts of forward and backward differ");
    judge(*request_.fixed_stages);
  }

  [[nodiscard]] bool fixes_weight_cuts() const {
    return request_.fixed_stages && std::any_of(request_.fixed_stages->begin(), request_.fixed_stages->end(),
                                                [](const Stage& s) { return s.work == Work::backward_weight; });
  }

  void refuse_what_only_msr_knows() const {
    for (const Layer& layer : problem_.profile.model.layers)
      if (layer.backward)
        throw infeasible(text("layer ", layer.name, " of ", problem_.profile.model.name,
                              " is a backward node of a foreign graph: use --cost msr"));
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (problem_.cluster.ranks[at(rank)].host)
        throw infeasible(text(
            "rank ", rank, " is a host CPU beside accelerators: use --cost msr, or describe the cluster by --ranks"));
  }

  void search() {
    // The others first: a proof may take all the time that is left, and they must be among the candidates. What the
    // whole space holds, with memory limits and without, is searched here alone.
    for (const std::vector<Stage>& stages : other_candidates(problem_, !by_bottleneck(request_), halfway()))
      judge(stages);
    solved_ = solve(problem_, request_.method, request_.deadline);
    bound_s_ = solved_.solution.lower_bound;
    if (solved_.solution.found()) judge(solved_.solution.stages);
    if (memory_is_limited(problem_.cluster)) search_without_limits();
    if (best_ || !solved_.solution.timed_out) return;
    for (const std::vector<Stage>& stages : plans_without_search(problem_)) judge(stages);
  }

  /// What solvers prove under memory limits holds by their safe count alone; without limits it holds for all plans,
  /// and its plan may fit after all.
  void search_without_limits() {
    const Cluster unlimited = with_unlimited_memory(problem_.cluster);
    const Problem wider{problem_.profile, unlimited, problem_.pricing, problem_.space};
    const Solution solution = solve(wider, Method::dp, request_.deadline).solution;
    bound_s_ = solution.lower_bound;
    if (solution.found()) judge(solution.stages);
  }

  [[nodiscard]] bool is_placed_here() const { return is_placed(schedule_named(problem_.pricing.schedule).placement); }

  void search_placed() {
    if (is_foreign())
      throw infeasible(text("--cost ", to_string(request_.cost), " knows no schedule ", problem_.pricing.schedule,
                            ": use --cost sluice, or 1f1b"));
    bound_s_ = compute_bound(problem_);
    const auto candidates = placed_candidates(problem_, request_.chunks, !by_bottleneck(request_), request_.deadline);
    solved_.solution = {.stages = candidates.front(), .lower_bound = bound_s_};
    solved_.solution.timed_out = std::chrono::steady_clock::now() >= request_.deadline;
    for (const std::vector<Stage>& stages : candidates) judge(stages);
  }

  void search_as_others_do() {
    solved_ = {solve_foreign(problem_, request_.cost, request_.deadline), Method::dp};
    bound_s_ = solved_.solution.lower_bound;
    if (!solved_.solution.found() && solved_.solution.timed_out)
      throw infeasible(text("the time limit came before any plan was found: raise --time-limit"));
    if (!solved_.solution.found())
      throw infeasible(text("under the cost of ", to_string(request_.cost),
                            " no plan fits the cluster: use more ranks or more memory"));
    if (has_schedule(request_.cost))
      judge(solved_.solution.stages);
    else
      best_ = bare_partition(problem_, solved_.solution);
  }

  [[nodiscard]] Deadline halfway() const {
    if (request_.deadline == kNoDeadline) return kNoDeadline;
    const auto now = std::chrono::steady_clock::now();
    return now + (request_.deadline - now) / 2;
  }

  /// Builds a candidate, unless it is known. The best that fits is kept, and the figures of the others; if none
  /// fits, the least full one.
  void judge(const std::vector<Stage>& stages) {
    if (std::find(judged_.begin(), judged_.end(), stages) != judged_.end()) return;
    judged_.push_back(stages);
    Scored scored = score(problem_, stages, request_.schedule_text ? &*request_.schedule_text : nullptr);
    if (!scored.fullest.fits()) {
      if (least_full_ && least_full_->fullness() <= scored.fullest.fullness()) return;
      least_full_ = scored.fullest;
      least_full_recomputes_ = describe_stages(stages).recomputed_layers > 0;
      return;
    }
    const PlanFigures& figures = scored.plan.figures;
    if (best_ && !(rank_key(request_, figures) < rank_key(request_, best_->figures))) {
      others_.push_back(figures);
      return;
    }
    if (best_) others_.push_back(best_->figures);
    best_ = std::move(scored.plan);
  }

  [[nodiscard]] std::string status() const {
    if (is_foreign())
      return is_optimal(solved_.solution) ? "optimal" : solved_.solution.timed_out ? "timed out" : "feasible";
    if (!request_.fixed_stages && best_->figures.bottleneck_s <= bound_s_ * kRounding) return "optimal";
    return solved_.solution.timed_out ? "timed out" : "feasible";
  }

  [[nodiscard]] Error does_not_fit() const {
    if (!least_full_) {
      if (solved_.solution.timed_out)
        return infeasible("the time limit came before any plan was found: raise --time-limit");
      return infeasible(text("there is no way to give each of ", ranks(), " ranks work with ", layers(), " layers"));
    }
    const std::string what = request_.fixed_stages    ? "with the given cuts"
                             : least_full_recomputes_ ? "in the least full plan found, with recomputation"
                                                      : "in the least full plan found";
    return infeasible(text("rank ", least_full_->rank, " needs ", gibibytes(least_full_->need_bytes), " but has ",
                           gibibytes(least_full_->limit_bytes), " (", what, ", ", problem_.pricing.schedule, ", ",
                           problem_.pricing.microbatches, " micro-batches): ", ways_out()));
  }

  /// What would make the plan fit: tried where that is cheap, named where not.
  [[nodiscard]] std::string ways_out() const {
    std::string ways = solved_.solution.timed_out ? "raise --time-limit, which came first, or use " : "use ";
    if (!problem_.space.recompute && !request_.fixed_stages && fits_with_recomputation()) ways += "--recompute, ";
    ways += "more ranks, smaller or fewer micro-batches, ";
    if (problem_.pricing.schedule == "gpipe") ways += "schedule 1f1b, ";
    return ways + "or more memory";
  }

  [[nodiscard]] bool fits_with_recomputation() const {
    if (is_placed_here() || is_cooperative()) return false;
    Problem relaxed = problem_;
    relaxed.space.recompute = true;
    const Solution solution = solve(relaxed, Method::dp, request_.deadline).solution;
    return solution.found() && score(relaxed, solution.stages).fullest.fits();
  }

  void explain(const Plan& plan) {
    const PlanFigures& figures = plan.figures;
    const int used = used_ranks(plan);
    if (used < ranks()) notes_.push_back(text(used, " of ", ranks(), " ranks have work"));
    if (is_foreign())
      notes_.push_back(text(
          "least ", to_string(request_.cost), " cost: ", solved_.solution.price, " s; ",
          plan.programs.empty() ? "a partition for comparison, without a schedule" : "bottleneck and step are ours"));
    if (request_.fixed_stages || is_foreign()) return;
    if (problem_.space.cuts != Cuts::joint && figures.cuts == "joint" && figures.workers > 1 && !is_cooperative())
      notes_.push_back(text(to_string(problem_.space.cuts), " cuts gain nothing here: the best plan has joint cuts"));
    if (figures.recomputed_layers > 0 && !is_cooperative())
      notes_.push_back(text(figures.recomputed_layers, " layers run forward twice to save memory or traffic"));
    if (plan.status != "optimal") notes_.push_back(why_not_optimal(figures.bottleneck_s));
  }

  [[nodiscard]] static int used_ranks(const Plan& plan) {
    int used = 0;
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
      used +=
          std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& s) { return owns(rank, s); }) ? 1 : 0;
    return used;
  }

  [[nodiscard]] std::string why_not_optimal(double bottleneck) const {
    const Solution& solution = solved_.solution;
    const std::string bound = bound_s_ > 0 ? text("no plan has a bottleneck below ", bound_s_, " s (gap ",
                                                  percent(bottleneck / bound_s_ - 1), ")")
                                           : std::string("no bound is known");
    if (solution.timed_out) return "the time limit came before the proof: " + bound;
    if (is_cooperative()) return bound;
    if (!solution.found()) return "fits memory by the exact count, though not by the safe one of the search: " + bound;
    if (bottleneck > solution.price * kRounding) return "chosen for its step time: " + bound;
    if (is_optimal(solution) && memory_is_limited(problem_.cluster))
      return "the best by the safe count of memory; without limits " + bound;
    return bound;
  }

  const PlannerRequest& request_;
  Problem problem_;
  Solved solved_;
  double bound_s_ = 0;  ///< no plan has a smaller bottleneck (foreign: cost), whatever fits
  std::vector<std::vector<Stage>> judged_;
  std::optional<Plan> best_;
  std::vector<PlanFigures> others_;
  std::optional<Fullest> least_full_;
  bool least_full_recomputes_ = false;
  std::vector<std::string> notes_;
};

/// A profile and the number of its micro-batches that make a step.
struct Batching {
  const Profile* profile = nullptr;
  int microbatches = 1;
};

constexpr int kDefaultMicrobatches = 8;

std::vector<Batching> batchings(const PlannerRequest& request) {
  std::vector<Batching> all;
  for (const Profile& profile : request.profiles) {
    const std::int64_t size = profile.model.microbatch;
    if (!request.global_batch) {
      all.push_back({&profile, request.microbatches.value_or(kDefaultMicrobatches)});
    } else if (size > 0 && *request.global_batch % size == 0) {
      const std::int64_t count = *request.global_batch / size;
      if (count > kMostMicrobatches)
        throw usage_error(text("a global batch of ", *request.global_batch, " is ", count, " micro-batches of ", size,
                               ", at most ", kMostMicrobatches, " are planned: use a smaller batch"));
      if (!request.microbatches || *request.microbatches == count) all.push_back({&profile, static_cast<int>(count)});
    }
  }
  return all;
}

bool knows_no_microbatch(const PlannerRequest& request) {
  return std::all_of(request.profiles.begin(), request.profiles.end(),
                     [](const Profile& profile) { return profile.model.microbatch <= 0; });
}

std::string microbatch_sizes(const PlannerRequest& request) {
  std::string sizes;
  for (const Profile& profile : request.profiles)
    sizes += text(sizes.empty() ? "" : ", ",
                  profile.model.microbatch > 0 ? text(profile.model.microbatch) : std::string("an unknown number"));
  return sizes;
}

void require_same_model(const PlannerRequest& request) {
  for (const Profile& profile : request.profiles)
    if (fingerprint(profile.model) != fingerprint(request.profiles[0].model))
      throw bad_input(text("the profiles are of different models, ", request.profiles[0].model.name, " and ",
                           profile.model.name, ": give profiles of one model at several micro-batch sizes"));
  if (request.profiles.size() > 1 && !request.global_batch)
    throw usage_error("several profiles are compared at one global batch: give --global-batch");
}

}  // namespace

bool is_better(const PlannerRequest& request, const PlanFigures& a, const PlanFigures& b) {
  const auto key = [&](const PlanFigures& f) { return std::pair(rank_key(request, f), f.peak_memory_bytes); };
  return key(a) < key(b);
}

PlannerResult make_plan(const PlannerRequest& request) {
  if (request.schedule == kAutoSchedule) return choose_schedule(request);
  require_same_model(request);
  if (request.global_batch && knows_no_microbatch(request))
    throw usage_error(
        "--global-batch counts samples, but the profile does not say how many a micro-batch has: give "
        "--microbatches instead");
  const std::vector<Batching> choices = batchings(request);
  if (choices.empty())
    throw usage_error(text("no number of micro-batches of ", microbatch_sizes(request),
                           " samples makes a global batch of ", *request.global_batch,
                           ": choose a multiple, or give --microbatches alone"));
  std::vector<PlannerResult> results;
  std::optional<Error> refusal;
  for (const Batching& choice : choices) try {
      results.push_back(Planner(request, *choice.profile, choice.microbatches).run());
    } catch (const Error& error) {
      if (error.exit_code() != ExitCode::infeasible) throw;
      refusal = error;
    }
  if (results.empty()) throw *refusal;
  const auto best = std::min_element(results.begin(), results.end(), [&](const auto& a, const auto& b) {
    return rank_key(request, a.plan.figures) < rank_key(request, b.plan.figures);
  });
  for (auto other = results.begin(); other != results.end(); ++other)
    if (other != best) best->plan.runners_up.push_back(other->plan.figures);
  return std::move(*best);
}

}  // namespace sluice
