#include "results/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/asynchronous.h"
#include "core/text.h"
#include "results/figures.h"
#include "results/picture.h"
#include "results/restarts.h"
#include "results/text_table.h"

namespace sluice {
namespace {

using Rows = std::vector<std::vector<std::string>>;

const char* name_of(LinkKind link) { return link == LinkKind::intra_node ? "inside nodes" : "between nodes"; }

std::string joined(const std::vector<Rank>& ranks) {
  std::string list;
  for (const Rank rank : ranks) list += text(list.empty() ? "" : ",", rank);
  return list;
}

std::string summary(const RunResults& results, const Figures& figures) {
  const RunHeader& header = results.header;
  const Plan& plan = header.plan;
  std::string lines =
      text("run            ", header.command_line, "\n", "started        ", header.started, ", seed ", header.seed,
           ", ", header.threads, " threads per rank, ", header.device, "\n", "plan           ", plan.schedule, ", ",
           plan.figures.cuts, " cuts, ", plan.cluster.ranks.size(), " ranks, ", plan.microbatches, " micro-batches of ",
           plan.profile.model.microbatch, ", ", plan.status, " (", plan.method, ")\n", "steps          ", figures.steps,
           " in ", figures.epochs, " epochs\n");
  if (figures.steps > 0) lines += text("loss           ", figures.first_loss, " first, ", figures.last_loss, " last\n");
  if (figures.evaluation)
    lines += text("test accuracy  ", format_percent(figures.evaluation->accuracy), " of ", figures.evaluation->samples,
                  " images, loss ", figures.evaluation->loss, ", after ", figures.evaluation->step, " steps\n");
  if (figures.steps > 0)
    lines +=
        text("step           ", format_seconds(figures.step_median_s), " median, ", format_seconds(figures.step_p95_s),
             " p95", figures.steps > 1 ? " (without the first, a warm-up)" : "", ", ",
             format_exact(std::round(figures.images_per_s)), " images/s\n");
  return lines;
}

std::string totals_table(const Figures& figures) {
  return text_table({{"whole step", "predicted", "measured", "difference"},
                     {"time", format_seconds(figures.predicted_step_s), format_seconds(figures.step_median_s),
                      format_signed_percent(relative_difference(figures.predicted_step_s, figures.step_median_s))},
                     {"bubble", format_percent(figures.predicted_bubble),
                      figures.bubble ? format_percent(*figures.bubble) : "-", ""}});
}

std::string stages_table(const Figures& figures) {
  Rows rows{{"stage, per micro-batch", "layers", "ranks", "predicted", "measured", "difference"}};
  for (const StageFigures& stage : figures.stages) {
    const bool measured = stage.samples > 0;
    rows.push_back({text(to_string(stage.op), " ", stage.index), stage.layers, joined(stage.ranks),
                    format_seconds(stage.predicted_s), measured ? format_seconds(stage.measured_s) : "-",
                    measured ? format_signed_percent(relative_difference(stage.predicted_s, stage.measured_s)) : "-"});
  }
  return text_table(rows);
}

std::string traffic_table(const Figures& figures) {
  Rows rows{{"payload bytes per step", "predicted", "measured", "difference"}};
  for (const TrafficFigures& row : figures.traffic)
    rows.push_back({name_of(row.link), format_exact(row.predicted_bytes),
                    row.measured_bytes ? format_exact(*row.measured_bytes) : "-",
                    row.measured_bytes ? format_exact(*row.measured_bytes - row.predicted_bytes) : "-"});
  return text_table(rows);
}

std::string transfers_table(const Figures& figures) {
  constexpr std::size_t kMost = 8;
  if (figures.transfers.empty()) return "";
  Rows rows{{"transfers with most bytes per step", "between nodes", "counted", "inside nodes", "counted", ""}};
  for (const TransferFigures& row : figures.transfers) {
    if (rows.size() > kMost) break;
    const auto counted = [&](std::size_t link) {
      return row.counted_bytes ? format_exact((*row.counted_bytes)[link]) : "-";
    };
    const bool differs = row.counted_bytes && *row.counted_bytes != row.predicted_bytes;
    rows.push_back({row.what, format_exact(row.predicted_bytes[1]), counted(1), format_exact(row.predicted_bytes[0]),
                    counted(0),
                    !row.counted_bytes ? "-"
                    : differs          ? "differs"
                                       : "equal"});
  }
  return text_table(rows) + "\n";
}

std::string ranks_table(const Figures& figures) {
  Rows rows{{"rank", "host", "compute", "update", "load", "communicate", "wait", "bubble", "predicted", "memory",
             "predicted"}};
  for (const RankFigures& rank : figures.ranks) {
    const auto share = [&](double measured) { return rank.steps > 0 ? format_percent(measured) : "-"; };
    rows.push_back({text(rank.rank), rank.host, share(rank.compute), share(rank.update), share(rank.load),
                    share(rank.communication), share(rank.wait), share(rank.bubble),
                    format_percent(rank.predicted_bubble),
                    rank.steps > 0 ? format_mebibytes(rank.peak_memory_bytes) : "-",
                    format_mebibytes(rank.predicted_peak_memory_bytes)});
  }
  return text_table(rows) + "  (bubble: all time without forward or backward work)\n";
}

std::string pictures(const RunResults& results) {
  std::string lines;
  const RunHeader& header = results.header;
  if (!header.predicted.ranks.empty())
    lines += text("\n", asynchronous(header.plan) ? "one run of steady" : "the step", " as predicted, ",
                  format_seconds(static_cast<double>(makespan_ns(header.predicted)) * 1e-9), "\n",
                  picture(header.predicted, training_program(header.plan)));
  if (const auto measured = last_measured_step(results))
    lines += text("\nstep ", measured->step, " as measured",
                  measured->shift_ns.empty() ? ", each rank from its own begin" : "", "\n",
                  picture(measured->timeline, training_program(header.plan), measured->shift_ns));
  if (!lines.empty())
    lines +=
        "  (0-9 forward, a-z backward of micro-batch 0, 1, ...; W backward-weight; R recompute; U update; = load, "
        "send; . wait)\n";
  return lines;
}

/// null if it was not measured.
template <typename Value>
nlohmann::json measured_json(bool measured, Value value) {
  return measured ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace

std::string report_text(const RunResults& results) {
  const Figures figures = figures_of(results);
  std::string flags;
  for (const std::string& flag : figures.flags) flags += text("! ", flag, "\n");
  return text(summary(results, figures), flags, "\n", restarts_table(results), checkpoints_table(results.tables),
              totals_table(figures), "\n", stages_table(figures), "\n", traffic_table(figures), "\n",
              transfers_table(figures), ranks_table(figures), pictures(results));
}

std::string report_json(const RunResults& results) {
  const Figures figures = figures_of(results);
  nlohmann::ordered_json json{{"command_line", results.header.command_line},
                              {"started", results.header.started},
                              {"complete", results.merged},
                              {"steps", figures.steps},
                              {"epochs", figures.epochs},
                              {"first_loss", figures.first_loss},
                              {"last_loss", figures.last_loss},
                              {"step_median_s", figures.step_median_s},
                              {"step_p95_s", figures.step_p95_s},
                              {"images_per_s", figures.images_per_s},
                              {"predicted_step_s", figures.predicted_step_s},
                              {"bubble", measured_json(figures.bubble.has_value(), figures.bubble.value_or(0))},
                              {"predicted_bubble", figures.predicted_bubble},
                              {"flags", figures.flags}};
  if (figures.evaluation)
    json["evaluation"] = {{"step", figures.evaluation->step},
                          {"loss", figures.evaluation->loss},
                          {"accuracy", figures.evaluation->accuracy},
                          {"samples", figures.evaluation->samples}};
  for (const RunAttempt& attempt : results.attempts)
    json["attempts"].push_back({{"first_step", attempt.first_step},
                                {"started", attempt.started},
                                {"schedule", attempt.schedule},
                                {"ranks", attempt.ranks},
                                {"job", attempt.job}});
  if (const auto checkpoints = checkpoint_figures(results.tables))
    json["checkpoints"] = {{"written", checkpoints->written},
                           {"failed", checkpoints->failed},
                           {"bytes", measured_json(checkpoints->written > 0, checkpoints->bytes)},
                           {"stall_median_s", checkpoints->stall_median_s},
                           {"stall_total_s", checkpoints->stall_total_s},
                           {"stall_share", measured_json(!results.tables.steps.empty(), checkpoints->stall_share)},
                           {"write_median_s", measured_json(checkpoints->written > 0, checkpoints->write_median_s)}};
  for (const StageFigures& stage : figures.stages)
    json["stages"].push_back({{"work", to_string(stage.op)},
                              {"stage", stage.stage},
                              {"index", stage.index},
                              {"layers", stage.layers},
                              {"ranks", stage.ranks},
                              {"predicted_s", stage.predicted_s},
                              {"measured_s", measured_json(stage.samples > 0, stage.measured_s)}});
  for (const TrafficFigures& row : figures.traffic)
    json["payload_bytes_per_step"][to_string(row.link)] = {
        {"predicted", row.predicted_bytes},
        {"measured", measured_json(row.measured_bytes.has_value(), row.measured_bytes.value_or(0))}};
  for (const TransferFigures& row : figures.transfers)
    for (const LinkKind link : {LinkKind::intra_node, LinkKind::inter_node}) {
      const auto at_link = static_cast<std::size_t>(link);
      auto& of_link = json["transfers"][text(row.transfer)][to_string(link)];
      of_link = {{"predicted", row.predicted_bytes[at_link]},
                 {"counted", row.counted_bytes ? nlohmann::json((*row.counted_bytes)[at_link]) : nlohmann::json()}};
    }
  for (const RankFigures& rank : figures.ranks) {
    const bool measured = rank.steps > 0;
    json["ranks"].push_back({{"rank", rank.rank},
                             {"host", rank.host},
                             {"compute", measured_json(measured, rank.compute)},
                             {"update", measured_json(measured, rank.update)},
                             {"load", measured_json(measured, rank.load)},
                             {"communication", measured_json(measured, rank.communication)},
                             {"wait", measured_json(measured, rank.wait)},
                             {"bubble", measured_json(measured, rank.bubble)},
                             {"predicted_bubble", rank.predicted_bubble},
                             {"peak_memory_bytes", measured_json(measured, rank.peak_memory_bytes)},
                             {"predicted_peak_memory_bytes", rank.predicted_peak_memory_bytes}});
  }
  return json.dump(2) + "\n";
}

}  // namespace sluice
