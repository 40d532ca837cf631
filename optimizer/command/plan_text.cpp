#include "optimizer/command/plan_text.h"

#include <algorithm>

#include "core/text.h"
#include "results/text_table.h"

namespace sluice {
namespace {

using Plans = std::vector<PlanFigures>;

std::string microbatches_text(const PlanFigures& f) {
  return f.microbatch > 0 ? text(f.microbatches, " x ", f.microbatch) : text(f.microbatches);
}

std::string replicas_text(const PlanFigures& f) {
  return f.replicas.find_first_not_of("1,") == std::string::npos ? "1 each" : f.replicas;
}

class Table {
 public:
  explicit Table(const Plans& plans) : plans_(plans), rows_{{""}} {
    for (const PlanFigures& figures : plans) rows_.push_back({(rows_.size() == 1 ? "chosen: " : "") + figures.cuts});
  }

  template <typename Shown>
  void column(const std::string& title, const Shown& shown) {
    rows_[0].push_back(title);
    for (std::size_t i = 0; i < plans_.size(); ++i) rows_[i + 1].push_back(shown(plans_[i]));
  }

  /// Only where some plan has something else than `dull`.
  template <typename Shown>
  void column_unless_all(const std::string& dull, const std::string& title, const Shown& shown) {
    if (std::any_of(plans_.begin(), plans_.end(), [&](const PlanFigures& f) { return shown(f) != dull; }))
      column(title, shown);
  }

  [[nodiscard]] std::string shown() const { return text_table(rows_); }

 private:
  const Plans& plans_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace

std::string headline(const Plan& plan) {
  const std::string ranks = text(plan.cluster.ranks.size(), " ranks");
  if (plan.programs.empty()) return text("a partition without a schedule, ", ranks);
  const std::string size = plan.figures.microbatch > 0 ? text(" of ", plan.figures.microbatch) : "";
  const std::string reader =
      plan.data_reader == kNone ? "" : text(", rank ", plan.data_reader, " reads the data for all");
  return text(plan.schedule, ", ", plan.microbatches, " micro-batches", size, ", ", ranks, reader);
}

std::string candidates_table(const Plan& plan) {
  if (plan.programs.empty()) return "";
  Plans plans{plan.figures};
  plans.insert(plans.end(), plan.runners_up.begin(), plan.runners_up.end());
  Table table(plans);
  table.column_unless_all(plan.schedule, "schedule", [](const PlanFigures& f) { return f.schedule; });
  table.column("workers", [](const PlanFigures& f) { return text(f.workers); });
  table.column_unless_all(microbatches_text(plan.figures), "micro-batches", microbatches_text);
  table.column("bottleneck", [](const PlanFigures& f) { return format_seconds(f.bottleneck_s); });
  table.column("bound by", [](const PlanFigures& f) { return f.bound_by; });
  table.column("step", [](const PlanFigures& f) { return format_seconds(f.step_s); });
  table.column("memory", [](const PlanFigures& f) { return format_mebibytes(f.peak_memory_bytes); });
  table.column_unless_all("0", "recomputed", [](const PlanFigures& f) { return text(f.recomputed_layers); });
  table.column_unless_all("1 each", "replicas", replicas_text);
  table.column("forward cuts", [](const PlanFigures& f) { return f.forward_cuts; });
  table.column("backward cuts", [](const PlanFigures& f) { return f.backward_cuts; });
  table.column_unless_all("", "weight cuts", [](const PlanFigures& f) { return f.weight_cuts; });
  return table.shown();
}

}  // namespace sluice
