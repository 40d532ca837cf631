#include "optimizer/planner/auto_schedule.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/error.h"
#include "core/schedule.h"
#include "core/text.h"

namespace sluice {
namespace {

std::vector<std::string> synchronous_schedules() {
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules())
    if (!schedule.asynchronous) names.emplace_back(schedule.name);
  return names;
}

/// What is left of the time, shared by those that still want some.
Deadline share(Deadline deadline, std::size_t sharers) {
  if (deadline == kNoDeadline) return kNoDeadline;
  const auto now = std::chrono::steady_clock::now();
  return now + (deadline - now) / static_cast<std::int64_t>(sharers);
}

std::string comparison(const PlanFigures& other, const PlanFigures& best) {
  std::ostringstream more;
  more << std::showpos << std::setprecision(3) << 100 * (other.step_s / best.step_s - 1) << " %";
  return text("schedule ", other.schedule, " would take ", other.step_s, " s a step (", more.str(), ")");
}

class Comparison {
 public:
  explicit Comparison(const PlannerRequest& request) : request_(request) {}

  PlannerResult run() {
    const std::vector<std::string> names = synchronous_schedules();
    for (std::size_t i = 0; i < names.size(); ++i) consider(names[i], share(request_.deadline, names.size() - i));
    if (results_.empty()) throw infeasible(text("no schedule is possible", refusals()));
    std::stable_sort(results_.begin(), results_.end(), [&](const PlannerResult& a, const PlannerResult& b) {
      return is_better(request_, a.plan.figures, b.plan.figures);
    });
    PlannerResult& best = results_.front();
    for (std::size_t i = 1; i < results_.size(); ++i) {
      const PlanFigures& other = results_[i].plan.figures;
      best.notes.push_back(comparison(other, best.plan.figures));
      best.plan.runners_up.push_back(other);
    }
    for (const auto& [name, reason] : refused_) best.notes.push_back(text("schedule ", name, " is left out: ", reason));
    return std::move(best);
  }

 private:
  void consider(const std::string& schedule, Deadline deadline) try {
    PlannerRequest one = request_;
    one.schedule = schedule;
    one.deadline = deadline;
    results_.push_back(make_plan(one));
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::infeasible) throw;
    refused_.emplace_back(schedule, error.what());
  }

  [[nodiscard]] std::string refusals() const {
    std::string all;
    for (const auto& [name, reason] : refused_) all += text("; ", name, ": ", reason);
    return all;
  }

  const PlannerRequest& request_;
  std::vector<PlannerResult> results_;
  std::vector<std::pair<std::string, std::string>> refused_;  // schedule, reason
};

}  // namespace

PlannerResult choose_schedule(const PlannerRequest& request) {
  if (request.cost != CostModel::sluice && !has_schedule(request.cost))
    throw usage_error(text("--cost ", to_string(request.cost), " makes partitions without a schedule: --schedule auto ",
                           "has nothing to choose"));
  return Comparison(request).run();
}

}  // namespace sluice
