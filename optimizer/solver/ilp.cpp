#include "optimizer/solver/ilp.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/ilp/loads.h"
#include "optimizer/solver/ilp/mip.h"
#include "optimizer/solver/ilp/seatings.h"
#include "optimizer/solver/ilp/works.h"

namespace sluice {
namespace {

/// What CBC can tell apart: ten times its tolerance on rows of a thousand units.
constexpr double kTolerance = 1e-6;

/// Plans with one seating, or with any.
struct Part {
  std::optional<Seating> seating;
  bool exact = true;  ///< false: the numbers of ranks that are alike are open, and their links cost less than they do
  double bound = 0;   ///< of its plans
};

/// Seatings are tried one by one as long as they are no more than this.
constexpr std::size_t kMostSeatings = 120;

class IlpSearch {
 public:
  IlpSearch(MipSolver& solver, const Problem& problem, const std::vector<Stage>& seed, double lower_bound,
            Deadline deadline)
      : solver_(solver), problem_(problem), deadline_(deadline) {
    if (!seed.empty()) consider(seed);
    best_.lower_bound = std::max(lower_bound, compute_bound(problem));
  }

  Solution run() {
    std::vector<Part> open = whole_problem();
    while (!open.empty() && !best_.timed_out) open = work_on(std::move(open));
    double bound = best_.price;
    for (const Part& part : open) bound = std::min(bound, part.bound);
    best_.lower_bound = std::max(best_.lower_bound, bound);
    return best_;
  }

 private:
  [[nodiscard]] std::vector<Part> whole_problem() const {
    if (is_optimal(best_)) return {};
    const bool exact = !numbers_matter(problem_);
    std::vector<Part> parts;
    for (Seating& seating : distinct_seatings(problem_, kMostSeatings))
      parts.push_back({std::move(seating), exact, best_.lower_bound});
    if (parts.empty()) parts.push_back({std::nullopt, true, best_.lower_bound});
    return parts;
  }

  /// Each part gets an equal share of the time that is left.
  /// @return  what is still open
  std::vector<Part> work_on(std::vector<Part> parts) {
    std::vector<Part> open;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (deadline_ == kNoDeadline) {
        work_on(parts[i], deadline_, open);
        continue;
      }
      const auto left = deadline_ - std::chrono::steady_clock::now();
      best_.timed_out = left < kLeastTime;
      work_on(parts[i], deadline_ - left + left / (parts.size() - i), open);
    }
    return open;
  }

  void work_on(Part part, Deadline deadline, std::vector<Part>& open) {
    if (best_.timed_out) return open.push_back(std::move(part));
    Mip mip;
    const int time = mip.add({.upper = kUnbounded, .cost = 1});
    const double unit_s = this->unit_s();
    WorkColumns works(mip, problem_, part.seating ? &*part.seating : nullptr);
    load_ranks_and_links(mip, works, problem_, time, unit_s, part.exact);
    limit_memory(mip, works, problem_);
    if (best_.price < kUnbounded) works.forbid_long_intervals(best_.price);
    while (part.bound < best_.price * (1 - kTolerance)) {
      mip.columns[at(time)].lower = part.bound / unit_s * (1 - kTolerance);
      if (best_.price < kUnbounded) mip.columns[at(time)].upper = best_.price / unit_s * (1 - kTolerance);
      const MipResult result = solver_.solve(mip, deadline);
      if (result.status == MipStatus::infeasible) return;
      // That there is nothing better is no bound but a proof, which a solver that was stopped has not.
      if (const double bound = result.bound * unit_s * (1 - kTolerance);
          result.status != MipStatus::stopped || bound < best_.price * (1 - 2 * kTolerance))
        part.bound = std::max(part.bound, bound);
      if (!result.values.empty()) consider(works.stages(result.values));
      if (result.status == MipStatus::stopped) {
        best_.timed_out |= deadline_ == kNoDeadline;  // CBC failed, and would again
        return open.push_back(std::move(part));
      }
      if (!part.exact) return open_numbers(part, open);
      works.exclude(result.values);
    }
  }

  /// The same seating with every numbering of the ranks that are alike.
  void open_numbers(const Part& part, std::vector<Part>& open) const {
    if (part.bound >= best_.price * (1 - 2 * kTolerance)) return;
    for (Seating& seating : relabelled(problem_, *part.seating)) open.push_back({std::move(seating), true, part.bound});
  }

  /// A thousandth of what the bottleneck is likely to be.
  [[nodiscard]] double unit_s() const {
    const double likely = best_.found() && best_.price < kUnbounded ? best_.price : compute_bound(problem_);
    return likely > 0 ? likely / 1000 : 1e-6;
  }

  void consider(const std::vector<Stage>& stages) {
    if (const double price = price_of(problem_, stages); price < best_.price) {
      best_.stages = stages;
      best_.price = price;
    }
  }

  static constexpr std::chrono::milliseconds kLeastTime{20};
  MipSolver& solver_;
  const Problem& problem_;
  const Deadline deadline_;
  Solution best_;
};

/// Joint cuts are found sooner than the independent ones that they are among.
std::vector<Stage> joint_seed(MipSolver& solver, const Problem& problem, const std::vector<Stage>& seed,
                              double lower_bound, Deadline deadline) {
  if (problem.space.cuts != Cuts::independent) return seed;
  Problem joint = problem;
  joint.space.cuts = Cuts::joint;
  const auto now = std::chrono::steady_clock::now();
  const Deadline early = deadline == kNoDeadline ? kNoDeadline : now + (deadline - now) / 4;
  return IlpSearch(solver, joint, seed, lower_bound, early).run().stages;
}

}  // namespace

Solution solve_ilp(const Problem& problem, const std::vector<Stage>& seed, double lower_bound, Deadline deadline) {
  if (problem.space.most_replicas > 1)
    throw infeasible(text("the integer program knows no replicas (up to ", problem.space.most_replicas,
                          " allowed): take --replicas 1, or --method dp"));
  MipSolver solver;
  const std::vector<Stage> start = joint_seed(solver, problem, seed, lower_bound, deadline);
  return IlpSearch(solver, problem, start, lower_bound, deadline).run();
}

}  // namespace sluice
