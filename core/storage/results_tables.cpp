#include "core/storage/results_tables.h"

#include "core/index.h"
#include "core/storage/in_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/string_map.h"
#include "core/storage/table.h"
#include "core/text.h"

namespace sluice {
namespace {

template <typename Table>
void step_columns(Table table) {
  table.number("step", &StepRecord::step, {"1", "steps before it"});
  table.number("epoch", &StepRecord::epoch, {"1", "passes over the training part before it"});
  table.number("loss", &StepRecord::loss, {"1", "mean over the global batch"}, Values::any);
  table.number("duration_s", &StepRecord::duration_s, {"s", "from its begin to the next one's"});
}

/// Bytes per link class, sent or received.
template <typename Table, typename Field>
void link_columns(Table& table, const std::string& direction, Field field) {
  for (const LinkKind kind : {LinkKind::intra_node, LinkKind::inter_node})
    table.number(text(direction, "_", to_string(kind), "_bytes"),
                 [=](auto& row) -> auto& { return field(row)[static_cast<std::size_t>(kind)]; },
                 {"B", "payload " + direction});
}
template <typename Table, typename Row>
void link_columns(Table& table, const std::string& direction, LinkBytes Row::*field) {
  link_columns(
      table, direction, [=](auto& row) -> auto& { return row.*field; });
}

template <typename Table>
void rank_step_columns(Table table) {
  table.number("step", &RankStep::step, {"1", "steps before it"});
  table.number("rank", &RankStep::rank, {"1", "who measured"});
  table.number("start_ns", &RankStep::start_ns, {"ns", "begin, on the rank's steady clock"});
  table.number("duration_ns", &RankStep::duration_ns, {"ns", "of the step"});
  table.number("compute_ns", &RankStep::compute_ns, {"ns", "in forward and backward works"});
  table.number("update_ns", &RankStep::update_ns, {"ns", "in optimizer steps"});
  table.number("load_ns", &RankStep::load_ns, {"ns", "in loads of images and labels"});
  table.number("communication_ns", &RankStep::communication_ns, {"ns", "in starts of collectives"});
  table.number("wait_ns", &RankStep::wait_ns, {"ns", "in waits for collectives"});
  link_columns(table, "sent", &RankStep::sent_bytes);
  link_columns(table, "received", &RankStep::received_bytes);
  table.number("peak_memory_bytes", &RankStep::peak_memory_bytes, {"B", "high-water mark"});
}

template <typename Table>
void timeline_columns(Table table) {
  table.number("step", &InstructionRecord::step, {"1", "a step that was recorded"});
  table.number("rank", &InstructionRecord::rank, {"1", "who ran it"});
  table.number("instruction", &InstructionRecord::instruction, {"1", "position in the rank's list"});
  table.number("start_ns", [](auto& row) -> auto& { return row.time.start_ns; }, {"ns", "since the step's begin"});
  table.number("end_ns", [](auto& row) -> auto& { return row.time.end_ns; }, {"ns", "since the step's begin"});
  link_columns(
      table, "sent", [](auto& row) -> auto& { return row.time.sent_bytes; });
}

template <typename Table>
void evaluation_columns(Table table) {
  table.number("step", &Evaluation::step, {"1", "steps done before it"});
  table.number("loss", &Evaluation::loss, {"1", "mean over the samples"}, Values::any);
  table.number("accuracy", &Evaluation::accuracy, {"1", "share of samples classified rightly"});
  table.number("samples", &Evaluation::samples, {"1", "images evaluated"});
}

template <typename Table>
void clock_columns(Table table) {
  table.number("rank", &ClockOffset::rank, {"1", "whose clock"});
  table.number("offset_ns", &ClockOffset::offset_ns, {"ns", "added to its steady clock it gives rank 0's"});
  table.number("uncertainty_ns", &ClockOffset::uncertainty_ns, {"ns", "half width"});
}

template <typename Table>
void checkpoint_columns(Table table) {
  table.number("step", &CheckpointRecord::step, {"1", "steps done before it"});
  table.number("snapshot_s", &CheckpointRecord::snapshot_s, {"s", "for which training stood still"});
  table.number("write_s", &CheckpointRecord::write_s, {"s", "from then until it was on disk, beside training"});
  table.number("bytes", &CheckpointRecord::bytes, {"B", "of all ranks' files"});
  table.number("written", &CheckpointRecord::written, {"1", "0: it failed"});
}

template <typename Table>
void attempt_columns(Table table) {
  table.number("first_step", &RunAttempt::first_step, {"1", "steps done before it"});
  table.string("started", &RunAttempt::started, "ISO 8601");
  table.string("schedule", &RunAttempt::schedule, "of its plan");
  table.number("ranks", &RunAttempt::ranks, {"1", "how many"});
  table.string("job", &RunAttempt::job, "Slurm's number of it; empty outside of Slurm");
}

template <typename Table>
void place_columns(Table table) {
  table.string("host", &RankPlace::host, "where the rank ran");
  table.number("cores", &RankPlace::cores, {"1", "that the host offers to the job; 0 if unknown"});
}

template <typename Table>
void predicted_rank_columns(Table table) {
  link_columns(table, "sent", &RankTimeline::sent_bytes);
  link_columns(table, "received", &RankTimeline::received_bytes);
  table.number("peak_memory_bytes", &RankTimeline::peak_memory_bytes, {"B", "high-water mark"});
}

/// The same tables as for measured steps; `step` is 0.
void write_predicted(const GroupWriter& group, const Timeline& predicted) {
  std::vector<InstructionRecord> rows;
  for (std::size_t rank = 0; rank < predicted.ranks.size(); ++rank)
    append_records(rows, 0, static_cast<Rank>(rank), predicted.ranks[rank]);
  predicted_rank_columns(TableWriter(group, "ranks", predicted.ranks));
  timeline_columns(TableWriter(group, "timeline", rows));
}

Timeline read_predicted(const GroupReader& group) {
  Timeline predicted;
  std::vector<InstructionRecord> rows;
  predicted_rank_columns(TableReader(group, "ranks", predicted.ranks));
  timeline_columns(TableReader(group, "timeline", rows));
  for (const InstructionRecord& row : rows) {
    if (row.rank < 0 || row.rank >= std::ssize(predicted.ranks))
      group.refuse("timeline/rank", text("holds ", row.rank, ", but there are ", predicted.ranks.size(), " ranks"));
    predicted.ranks[at(row.rank)].instructions.push_back(row.time);
  }
  return predicted;
}

void write_header(const GroupWriter& group, const RunHeader& header, const std::vector<RunAttempt>& attempts) {
  group.attribute("seed", header.seed);
  group.attribute("threads", header.threads);
  group.attribute("device", header.device);
  group.attribute("started", header.started);
  group.attribute("first_step", header.first_step);
  write_plan(group.group("plan"), header.plan);
  write_predicted(group.group("predicted"), header.predicted);
  place_columns(TableWriter(group, "places", header.places));
  attempt_columns(TableWriter(group, "attempts", attempts));
  write_string_map(group, "settings", header.settings);
}

RunHeader read_header(const GroupReader& group) {
  RunHeader header;
  header.seed = group.integer_attribute<std::int64_t>("seed");
  header.threads = group.integer_attribute<int>("threads");
  header.device = group.text_attribute("device");
  header.started = group.text_attribute("started");
  header.first_step = group.integer_attribute<std::int64_t>("first_step");
  header.plan = read_plan(group.group("plan"));
  header.predicted = read_predicted(group.group("predicted"));
  place_columns(TableReader(group, "places", header.places));
  header.settings = read_string_map(group, "settings");
  return header;
}

/// Records from before there were restarts do not list their attempts.
std::vector<RunAttempt> read_attempts(const GroupReader& group, const RunHeader& header) {
  std::vector<RunAttempt> attempts{attempt_of(header)};
  if (!group.has("attempts")) return attempts;
  attempt_columns(TableReader(group, "attempts", attempts));
  if (attempts.empty()) group.refuse("attempts", "has no rows, expected one at least");
  for (const RunAttempt& attempt : attempts)
    if (attempt.first_step < 0) group.refuse("attempts/first_step", text("holds ", attempt.first_step));
  return attempts;
}

}  // namespace

RunAttempt attempt_of(const RunHeader& header) {
  return {header.first_step, header.started, header.plan.schedule, static_cast<int>(header.plan.cluster.ranks.size()),
          header.job};
}

void append_records(std::vector<InstructionRecord>& rows, std::int64_t step, Rank rank, const RankTimeline& timeline) {
  int instruction = 0;
  for (const InstructionTime& time : timeline.instructions) rows.push_back({step, rank, instruction++, time});
}

void write_results_file(const std::string& path, const RunHeader* header, const std::vector<RunAttempt>& attempts,
                        const RunTables& tables) {
  FileWriter file(path, kResultsSchema,
                  header != nullptr ? Provenance{header->command_line, header->settings} : Provenance{});
  const GroupWriter root = file.root();
  if (header != nullptr) write_header(root.group("run"), *header, attempts);
  step_columns(TableWriter(root, "steps", tables.steps));
  rank_step_columns(TableWriter(root, "ranks", tables.ranks));
  timeline_columns(TableWriter(root, "timeline", tables.timeline));
  evaluation_columns(TableWriter(root, "evaluations", tables.evaluations));
  clock_columns(TableWriter(root, "clocks", tables.clocks));
  checkpoint_columns(TableWriter(root, "checkpoints", tables.checkpoints));
  file.commit();
}

ResultsContents read_results_file(const std::string& path) {
  const FileReader file(path, kResultsSchema);
  const GroupReader root = file.root();
  ResultsContents contents;
  if (root.has("run")) {
    contents.header = read_header(root.group("run"));
    contents.header->command_line = read_provenance(path).command_line;
    contents.attempts = read_attempts(root.group("run"), *contents.header);
    contents.header->job = contents.attempts.back().job;
    in_file(path, [&] { validate(contents.header->plan); });
  }
  step_columns(TableReader(root, "steps", contents.tables.steps));
  rank_step_columns(TableReader(root, "ranks", contents.tables.ranks));
  timeline_columns(TableReader(root, "timeline", contents.tables.timeline));
  evaluation_columns(TableReader(root, "evaluations", contents.tables.evaluations));
  clock_columns(TableReader(root, "clocks", contents.tables.clocks));
  if (root.has("checkpoints")) checkpoint_columns(TableReader(root, "checkpoints", contents.tables.checkpoints));
  return contents;
}

}  // namespace sluice
