#include "results/restarts.h"

#include <algorithm>

#include "core/statistics.h"
#include "core/text.h"
#include "results/text_table.h"

namespace sluice {

std::optional<CheckpointFigures> checkpoint_figures(const RunTables& tables) {
  if (tables.checkpoints.empty()) return std::nullopt;
  CheckpointFigures figures;
  std::vector<double> stalls, writes, bytes;
  for (const CheckpointRecord& checkpoint : tables.checkpoints) {
    stalls.push_back(checkpoint.snapshot_s);
    figures.stall_total_s += checkpoint.snapshot_s;
    if (!checkpoint.written) continue;
    figures.last_step = std::max(figures.last_step, checkpoint.step);
    writes.push_back(checkpoint.write_s);
    bytes.push_back(static_cast<double>(checkpoint.bytes));
  }
  figures.written = std::ssize(writes);
  figures.failed = std::ssize(stalls) - figures.written;
  figures.bytes = static_cast<std::int64_t>(median(bytes));
  figures.stall_median_s = median(stalls);
  figures.write_median_s = median(writes);
  double training_s = 0;
  for (const StepRecord& step : tables.steps) training_s += step.duration_s;
  if (training_s > 0) figures.stall_share = figures.stall_total_s / training_s;
  return figures;
}

std::string restarts_table(const RunResults& results) {
  if (results.attempts.size() < 2) return "";
  std::vector<std::vector<std::string>> rows{{"restarts", "after steps", "started", "ranks", "schedule", "job"}};
  for (const RunAttempt& attempt : results.attempts)
    rows.push_back({rows.size() == 1 ? "start" : text("restart ", rows.size() - 1), text(attempt.first_step),
                    attempt.started, text(attempt.ranks), attempt.schedule, attempt.job.empty() ? "-" : attempt.job});
  return text_table(rows) + "\n";
}

std::string checkpoints_table(const RunTables& tables) {
  const auto figures = checkpoint_figures(tables);
  if (!figures) return "";
  const bool any = figures->written > 0;
  return text_table(
             {{"checkpoints", "written", "failed", "size", "stall, median", "total", "of training", "on disk after"},
              {any ? text("the last after ", figures->last_step, " steps") : "none was written", text(figures->written),
               text(figures->failed), any ? format_mebibytes(figures->bytes) : "-",
               format_seconds(figures->stall_median_s), format_seconds(figures->stall_total_s),
               tables.steps.empty() ? "-" : format_percent(figures->stall_share),
               any ? format_seconds(figures->write_median_s) : "-"}}) +
         "\n";
}

}  // namespace sluice
