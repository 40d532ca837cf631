#include "core/storage/plan_file.h"

#include "core/storage/cluster_file.h"
#include "core/storage/in_file.h"
#include "core/storage/profile_file.h"
#include "core/storage/string_map.h"
#include "core/storage/table.h"
#include "core/text.h"

namespace sluice {
namespace {

/// One of op, four of int32.
constexpr std::int64_t kInstructionBytes = 17;

template <typename Table>
void stage_columns(Table table) {
  table.choice("work", &Stage::work, Work::recompute, "what is done with the layers");
  table.number("index", &Stage::index, {"1", "position in the pipeline"});
  table.list("layers", &Stage::layers, {"1", "rows of the model's layers, ascending"});
  table.list("owners", &Stage::owners, {"1", "ranks; replica i runs micro-batches m with m mod replicas = i"});
  table.number("fetches_weights", &Stage::fetches_weights,
               {"1", "1: owners that do not update the layers fetch their weights in every program"});
}

template <typename Table>
void group_columns(Table table) {
  table.number("root", &Group::root, {"1", "rank that holds the payload before a multicast"});
  table.list("members", &Group::members, {"1", "ranks, ascending"});
}

template <typename Table>
void transfer_columns(Table table) {
  table.choice("payload", &Transfer::payload, Payload::weight_gradients, "what is sent");
  table.number("tensor", &Transfer::tensor, {"1", "row of the model's tensors; -1 for weights and their gradients"});
  table.number("stage", &Transfer::stage, {"1", "gradient: row of the stage that made it, else -1"});
  table.number("layer", &Transfer::layer, {"1", "weights and their gradients: row of the layer, else -1"});
  table.number("group", &Transfer::group, {"1", "row of groups"});
  table.number("bytes", &Transfer::bytes, {"B", "per micro-batch; weights and their gradients: per step"});
  const auto algorithm = [](auto& transfer) -> auto& { return transfer.route.algorithm; };
  const auto segment_bytes = [](auto& transfer) -> auto& { return transfer.route.segment_bytes; };
  table.choice("algorithm", algorithm, Algorithm::ring, "how it travels");
  table.number("segment_bytes", segment_bytes, {"B", "multicast: passed on in segments of this size; 0: whole"});
  table.number("predicted_s", &Transfer::predicted_s, {"s", "one call on idle links"});
}

template <typename Table>
void instruction_columns(Table table) {
  table.choice("op", &Instruction::op, Op::optimizer_step, "what the rank does");
  table.number("stage", &Instruction::stage, {"1", "row of stages, or -1"});
  table.number("transfer", &Instruction::transfer, {"1", "row of transfers, or -1"});
  table.number("microbatch", &Instruction::microbatch, {"1", "0 to M-1, or -1; asynchronous: from the program's base"});
  table.number("version", &Instruction::version,
               {"1", "of the weights; asynchronous: from the program's base, else 0"});
}

constexpr const char* kAuto = "auto";

std::string algorithm_name(std::optional<Algorithm> asked) { return asked ? to_string(*asked) : kAuto; }

std::optional<Algorithm> algorithm_named(const GroupReader& group, const std::string& attribute) {
  const std::string name = group.text_attribute(attribute);
  if (name == kAuto) return std::nullopt;
  for (int value = 0; value <= static_cast<int>(Algorithm::ring); ++value)
    if (const auto algorithm = static_cast<Algorithm>(value); name == to_string(algorithm)) return algorithm;
  group.refuse(attribute, text("is '", name, "', expected auto or an algorithm"));
}

/// One list of instructions: rows first_instruction up to the next list's.
struct ListRow {
  std::string program;
  Rank rank = 0;
  std::int64_t first_instruction = 0;
};

template <typename Table>
void list_columns(Table table) {
  table.string("program", &ListRow::program, "what the list belongs to");
  table.number("rank", &ListRow::rank, {"1", "who runs it; ascending within a program"});
  table.number("first_instruction", &ListRow::first_instruction,
               {"1", "row of instructions; the list ends where the next one begins"});
}

template <typename Table>
void candidate_columns(Table table) {
  table.string("schedule", &PlanFigures::schedule, "that it was judged under");
  table.string("cuts", &PlanFigures::cuts, "joint, independent or three");
  table.string("forward_cuts", &PlanFigures::forward_cuts, "first layers of workers 1, 2, ...; - if no intervals");
  table.string("backward_cuts", &PlanFigures::backward_cuts, "first layers of workers 1, 2, ...; - if no intervals");
  table.string("weight_cuts", &PlanFigures::weight_cuts, "likewise of backward-weight, if it has its own");
  table.string("replicas", &PlanFigures::replicas, "ranks of workers 0, 1, ...");
  table.number("workers", &PlanFigures::workers, {"1", "workers used"});
  table.number("recomputed_layers", &PlanFigures::recomputed_layers, {"1", "layers that run forward twice"});
  table.number("microbatch", &PlanFigures::microbatch, {"1", "samples"});
  table.number("microbatches", &PlanFigures::microbatches, {"1", "per step"});
  table.number("bottleneck_s", &PlanFigures::bottleneck_s, {"s", "per micro-batch"});
  table.string("bound_by", &PlanFigures::bound_by, "the busiest resource");
  table.number("step_s", &PlanFigures::step_s, {"s", "simulated step"});
  table.number("peak_memory_bytes", &PlanFigures::peak_memory_bytes, {"B", "of the rank that holds most"});
}

std::int64_t instruction_count(const Plan& plan) {
  std::int64_t count = 0;
  for (const Program& program : plan.programs)
    for (const auto& list : program.ranks) count += std::ssize(list);
  return count;
}

void require_at_most(std::int64_t most_instructions, const Plan& plan, const std::string& path) {
  const std::int64_t count = instruction_count(plan);
  if (count > most_instructions)
    throw infeasible(text(path, ": the plan has ", count, " instructions (", count * kInstructionBytes / 1'000'000,
                          " MB before compression), the limit is ", most_instructions,
                          ": use fewer micro-batches, or simulate it without writing it"));
}

void write_programs(const GroupWriter& group, const Plan& plan) {
  std::vector<ListRow> lists;
  std::vector<Instruction> instructions;
  instructions.reserve(static_cast<std::size_t>(instruction_count(plan)));
  for (const Program& program : plan.programs)
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      lists.push_back({program.name, static_cast<Rank>(rank), std::ssize(instructions)});
      instructions.insert(instructions.end(), program.ranks[rank].begin(), program.ranks[rank].end());
    }
  list_columns(TableWriter(group, "lists", lists));
  instruction_columns(TableWriter(group, "instructions", instructions));
}

std::vector<Program> read_programs(const GroupReader& group) {
  std::vector<ListRow> lists;
  std::vector<Instruction> instructions;
  list_columns(TableReader(group, "lists", lists));
  instruction_columns(TableReader(group, "instructions", instructions));
  std::vector<Program> programs;
  for (std::size_t row = 0; row < lists.size(); ++row) {
    const std::int64_t begin = lists[row].first_instruction;
    const std::int64_t end = row + 1 < lists.size() ? lists[row + 1].first_instruction : std::ssize(instructions);
    if (begin < 0 || begin > end || end > std::ssize(instructions) || (row == 0 && begin != 0))
      group.refuse("lists/first_instruction", text("row ", row, ": the list runs from ", begin, " to ", end, " of ",
                                                   instructions.size(), " instructions"));
    if (lists[row].rank == 0) programs.push_back({lists[row].program, {}});
    if (programs.empty() || programs.back().name != lists[row].program ||
        lists[row].rank != std::ssize(programs.back().ranks))
      group.refuse("lists", text("row ", row, " (program ", lists[row].program, ", rank ", lists[row].rank,
                                 ") is out of order, expected ranks 0, 1, ... of one program after another"));
    programs.back().ranks.emplace_back(instructions.begin() + begin, instructions.begin() + end);
  }
  return programs;
}

std::uint8_t position(ElementType type) { return static_cast<std::uint8_t>(type); }

/// compute, boundary and master type, in this order.
void write_element_types(const GroupWriter& group, const Plan& plan) {
  group.choices("element_types",
                {position(plan.compute_type), position(plan.boundary_type), position(plan.master_type)},
                names_up_to(ElementType::uint8), "of computing, of what crosses stages, of the weights' masters");
}

void read_element_types(const GroupReader& group, Plan& plan) {
  const auto types = group.choices("element_types", names_up_to(ElementType::uint8));
  if (types.size() != 3) group.refuse("element_types", text("has ", types.size(), " rows, expected 3"));
  plan.compute_type = static_cast<ElementType>(types[0]);
  plan.boundary_type = static_cast<ElementType>(types[1]);
  plan.master_type = static_cast<ElementType>(types[2]);
}

void write_candidates(const GroupWriter& group, const Plan& plan) {
  std::vector<PlanFigures> candidates{plan.figures};
  candidates.insert(candidates.end(), plan.runners_up.begin(), plan.runners_up.end());
  candidate_columns(TableWriter(group, "candidates", candidates));
}

void read_candidates(const GroupReader& group, Plan& plan) {
  candidate_columns(TableReader(group, "candidates", plan.runners_up));
  if (plan.runners_up.empty()) group.refuse("candidates", "has no rows, expected the chosen plan in the first");
  plan.figures = plan.runners_up.front();
  plan.runners_up.erase(plan.runners_up.begin());
}

}  // namespace

void write_plan(const GroupWriter& group, const Plan& plan) {
  group.attribute("schedule", plan.schedule);
  group.attribute("microbatches", plan.microbatches);
  group.attribute("multicast", algorithm_name(plan.multicast));
  group.attribute("all_reduce", algorithm_name(plan.all_reduce));
  group.attribute("data_reader", plan.data_reader);
  group.attribute("receive_ahead", plan.receive_ahead);
  group.attribute("method", plan.method);
  group.attribute("status", plan.status);
  group.attribute("lower_bound_s", plan.lower_bound_s);
  group.attribute("digest", hexadecimal(digest(plan)));
  write_profile(group.group("profile"), plan.profile);
  write_cluster(group.group("cluster"), plan.cluster);
  write_element_types(group, plan);
  stage_columns(TableWriter(group, "stages", plan.stages));
  group_columns(TableWriter(group, "groups", plan.groups));
  transfer_columns(TableWriter(group, "transfers", plan.transfers));
  write_programs(group, plan);
  write_candidates(group, plan);
  write_string_map(group, "options", plan.options);
}

Plan read_plan(const GroupReader& group) {
  Plan plan;
  plan.schedule = group.text_attribute("schedule");
  plan.microbatches = group.integer_attribute<int>("microbatches");
  plan.multicast = algorithm_named(group, "multicast");
  plan.all_reduce = algorithm_named(group, "all_reduce");
  plan.data_reader = group.integer_attribute<int>("data_reader");
  plan.receive_ahead = group.integer_attribute<int>("receive_ahead");
  plan.method = group.text_attribute("method");
  plan.status = group.text_attribute("status");
  plan.lower_bound_s = group.real_attribute("lower_bound_s");
  plan.profile = read_profile(group.group("profile"));
  plan.cluster = read_cluster(group.group("cluster"));
  read_element_types(group, plan);
  stage_columns(TableReader(group, "stages", plan.stages));
  group_columns(TableReader(group, "groups", plan.groups));
  transfer_columns(TableReader(group, "transfers", plan.transfers));
  plan.programs = read_programs(group);
  read_candidates(group, plan);
  plan.options = read_string_map(group, "options");
  require_identity(group, "digest", digest(plan));
  return plan;
}

void write_plan(const std::string& path, const Plan& plan, const Provenance& provenance,
                std::int64_t most_instructions) {
  require_at_most(most_instructions, plan, path);
  in_file(path, [&] { validate(plan); });
  FileWriter file(path, kPlanSchema, provenance);
  write_plan(file.root().group("plan"), plan);
  file.commit();
}

Plan read_plan(const std::string& path) {
  Plan plan = read_plan(FileReader(path, kPlanSchema).root().group("plan"));
  in_file(path, [&] { validate(plan); });
  return plan;
}

}  // namespace sluice
