#include <algorithm>
#include <charconv>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>

#include "core/error.h"
#include "core/schedule.h"
#include "core/storage/atomic_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/text.h"
#include "optimizer/command/cluster_options.h"
#include "optimizer/command/commands.h"
#include "optimizer/command/option_conflicts.h"
#include "optimizer/command/plan_json.h"
#include "optimizer/command/plan_text.h"
#include "optimizer/planner/auto_schedule.h"
#include "optimizer/planner/fixed_stages.h"
#include "optimizer/planner/planner.h"

namespace sluice {

namespace po = boost::program_options;

namespace {

constexpr double kMostSamples = 1e12;
constexpr double kMostSeconds = 1e6;
constexpr int kMostChunks = 1000;

std::vector<std::string> schedule_choices() {
  std::vector<std::string> names{std::string(kAutoSchedule)};
  for (const Schedule& schedule : schedules()) names.emplace_back(schedule.name);
  return names;
}

constexpr const char* kBestRoute = "auto";

std::vector<std::string> route_choices(CollectiveKind kind) {
  std::vector<std::string> names{kBestRoute};
  for (const Algorithm algorithm : algorithms(kind)) names.emplace_back(to_string(algorithm));
  return names;
}

std::string route_help(CollectiveKind kind) {
  return text("how every ", kind == CollectiveKind::multicast ? "multicast" : "all-reduce",
              " travels: ", algorithm_names(kind),
              "; or auto: the one that the model finds fastest, of those that enter each node once");
}

/// None: auto.
std::optional<Algorithm> route_from(const po::variables_map& values, const std::string& name, CollectiveKind kind) {
  const int chosen = choice(values, name, route_choices(kind));
  if (chosen == 0) return std::nullopt;
  return algorithms(kind)[static_cast<std::size_t>(chosen - 1)];
}

std::string schedule_help() {
  return text(schedule_names(), "; or ", kAutoSchedule, ": the best of them, but for asynchronous ones");
}

CommandSyntax syntax() {
  CommandSyntax syntax{"sluice optimize --profile PROFILE [--cluster CLUSTER] --ranks N -o PLAN [options]",
                       po::options_description("options", 100),
                       {}};
  syntax.table.add_options()("profile", po::value<std::vector<std::string>>()->required(),
                             "profile to plan by; several of one model: its micro-batch sizes");
  add_cluster_options(syntax.table);
  syntax.table.add_options()                                                                                  //
      ("schedule", po::value<std::string>()->default_value("1f1b"), schedule_help().c_str())                  //
      ("schedule-file", po::value<std::string>(), "a schedule of your own as text, with its --forward-cuts")  //
      ("chunks", po::value<int>()->default_value(2), "positions on each rank under interleaved-1f1b")         //
      ("microbatches", po::value<int>(), "micro-batches a step; default 8, or what makes the global batch")   //
      ("global-batch", po::value<std::int64_t>(), "samples a step: micro-batches x their size")               //
      ("cuts", po::value<std::string>()->default_value("independent"),                                        //
       "joint: a worker's backward has the layers of its forward; independent; or three: backward-weight apart, too")  //
      ("stages", po::value<std::string>()->default_value("intervals"),                                              //
       "intervals of the layers' order, or ideals: any layers whose predecessors lie in earlier workers")           //
      ("replicas", po::value<std::string>()->default_value("1"), "most ranks of a worker (data parallel), or any")  //
      ("recompute", po::bool_switch(), "layers may run forward again to save memory or traffic")                    //
      ("free-backward", po::bool_switch(), "backward stages may go to the workers in any order")                    //
      ("data-reader", po::value<std::string>()->default_value("none"),                                              //
       "rank that reads input and labels for all; none: every rank that needs them")                                //
      ("exactly", po::bool_switch(), "give every rank some work")                                                   //
      ("forward-cuts", po::value<std::string>(), "fixed forward cuts, positions a,b,... one less than workers")     //
      ("backward-cuts", po::value<std::string>(), "fixed backward cuts; one of the two stands for both")            //
      ("weight-cuts", po::value<std::string>(), "fixed cuts of backward-weight")                                    //
      ("worker-replicas", po::value<std::string>(), "ranks of each fixed worker a,b,...; default 1 each")           //
      ("cost", po::value<std::string>()->default_value("sluice"),                                                   //
       "what the solver minimises: sluice, or as other planners do pipedream, pipedream-activations, msr, msr-apart")  //
      ("objective", po::value<std::string>()->default_value("step"), "step or bottleneck")  //
      ("multicast", po::value<std::string>()->default_value(kBestRoute),
       route_help(CollectiveKind::multicast).c_str())  //
      ("all-reduce", po::value<std::string>()->default_value(kBestRoute),
       route_help(CollectiveKind::all_reduce).c_str())                                                 //
      ("compute-only", po::bool_switch(), "leave all traffic out; implies --objective bottleneck")     //
      ("method", po::value<std::string>()->default_value("auto"), "auto, dp, ilp or exhaustive")       //
      ("time-limit", po::value<double>()->default_value(60), "seconds until the best so far must do")  //
      ("json", po::bool_switch(), "print one JSON object")                                             //
      ("output,o", po::value<std::string>()->required(), "plan to write");
  return syntax;
}

std::optional<std::vector<int>> numbers_from(const po::variables_map& values, const std::string& name) {
  const auto list = optional_value<std::string>(values, name);
  if (!list) return std::nullopt;
  std::vector<int> numbers;
  const char* place = list->data();
  const char* end = place + list->size();
  while (place != end) {
    const auto [rest, error] = std::from_chars(place, end, numbers.emplace_back());
    const bool separated = rest == end || (*rest == ',' && rest + 1 != end);
    if (error != std::errc() || !separated)
      throw usage_error(text("--", name, " is '", *list, "', expected numbers like 3,7"));
    place = rest == end ? end : rest + 1;
  }
  return numbers;
}

int most_replicas(const po::variables_map& values, const Cluster& cluster) {
  const std::string& word = values["replicas"].as<std::string>();
  const int ranks = static_cast<int>(cluster.ranks.size());
  if (word == "any") return ranks;
  int count = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (error != std::errc() || rest != word.data() + word.size() || count < 1)
    throw usage_error(text("--replicas is '", word, "', expected a number from 1 on, or any"));
  return std::min(count, ranks);
}

Rank data_reader_from(const po::variables_map& values) {
  const std::string& word = values["data-reader"].as<std::string>();
  if (word == "none") return kNone;
  Rank rank = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
  if (error != std::errc() || rest != word.data() + word.size() || rank < 0)
    throw usage_error(text("--data-reader is '", word, "', expected a rank, or none"));
  return rank;
}

CostModel cost_from(const po::variables_map& values) {
  std::vector<std::string> names;
  for (int cost = 0; cost < kCostModels; ++cost) names.push_back(to_string(static_cast<CostModel>(cost)));
  return static_cast<CostModel>(choice(values, "cost", names));
}

/// Other planners look at all ideals unless told otherwise.
bool takes_ideals(const po::variables_map& values) {
  return values["stages"].defaulted() && cost_from(values) != CostModel::sluice;
}

SearchSpace space_from(const po::variables_map& values, const Cluster& cluster) {
  return {.cuts = static_cast<Cuts>(choice(values, "cuts", {"joint", "independent", "three"})),
          .most_replicas = most_replicas(values, cluster),
          .recompute = values["recompute"].as<bool>(),
          .ideals = choice(values, "stages", {"intervals", "ideals"}) == 1 || takes_ideals(values),
          .free_backward = values["free-backward"].as<bool>(),
          .exactly = values["exactly"].as<bool>()};
}

Deadline deadline_from(const po::variables_map& values) {
  const double seconds = values["time-limit"].as<double>();
  require_within("time-limit", seconds, 0.001, kMostSeconds);
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

std::vector<Profile> read_profiles(const po::variables_map& values) {
  std::vector<Profile> profiles;
  for (const std::string& path : values["profile"].as<std::vector<std::string>>())
    profiles.push_back(read_profile(path));
  return profiles;
}

std::string schedule_from(const po::variables_map& values) {
  const std::string name = schedule_choices()[static_cast<std::size_t>(choice(values, "schedule", schedule_choices()))];
  require_within("chunks", values["chunks"].as<int>(), 1, kMostChunks);
  const bool takes_chunks = name == kAutoSchedule || schedule_named(name).placement == Placement::round_robin;
  if (!values["chunks"].defaulted() && !takes_chunks)
    throw usage_error(text("--chunks cannot be had with schedule ", name, ": it is for interleaved-1f1b"));
  return name;
}

/// --schedule-file: the layers of its positions follow from the cuts, their owners from its cells.
void take_schedule_file(PlannerRequest& request, const std::string& path, const FixedCuts& cuts) {
  std::ifstream file(path);
  if (!file) throw bad_input(text(path, " cannot be read"));
  request.schedule_text = read_schedule_text(file, path);
  const ScheduleText& schedule = *request.schedule_text;
  if (!cuts.given() && schedule.positions > 1)
    throw usage_error(
        text(path, " has ", schedule.positions, " positions: give their ", schedule.positions - 1, " --forward-cuts"));
  if (cuts.replicas) throw usage_error("--worker-replicas follow from the schedule's file: leave them out");
  if (request.microbatches.value_or(schedule.microbatches) != schedule.microbatches)
    throw usage_error(
        text("--microbatches is ", *request.microbatches, ", but ", path, " has ", schedule.microbatches));
  request.microbatches = schedule.microbatches;
  request.schedule = kFileSchedule;
  request.fixed_stages = stages_of(
      schedule,
      fixed_stages(cuts, static_cast<int>(request.profiles[0].model.layers.size()), std::numeric_limits<int>::max()));
}

PlannerRequest request_from(const po::variables_map& values, std::vector<Profile> profiles, const Cluster& cluster) {
  const std::string schedule = schedule_from(values);
  PlannerRequest request{
      .profiles = std::move(profiles),
      .cluster = cluster,
      .schedule = schedule,
      .chunks = values["chunks"].as<int>(),
      .compute_only = values["compute-only"].as<bool>(),
      .multicast = route_from(values, "multicast", CollectiveKind::multicast),
      .all_reduce = route_from(values, "all-reduce", CollectiveKind::all_reduce),
      .microbatches = optional_value<int>(values, "microbatches"),
      .global_batch = optional_value<std::int64_t>(values, "global-batch"),
      .space = space_from(values, cluster),
      .data_reader = data_reader_from(values),
      .cost = cost_from(values),
      .method = static_cast<Method>(choice(values, "method", {"auto", "dp", "ilp", "exhaustive"})),
      .goal = choice(values, "objective", {"step", "bottleneck"}) == 0 ? Goal::step : Goal::bottleneck,
      .deadline = deadline_from(values),
      .fixed_stages = {}};
  if (request.microbatches) require_within("microbatches", *request.microbatches, 1, kMostMicrobatches);
  if (request.global_batch) require_within("global-batch", static_cast<double>(*request.global_batch), 1, kMostSamples);
  const FixedCuts fixed{.forward = numbers_from(values, "forward-cuts"),
                        .backward = numbers_from(values, "backward-cuts"),
                        .weight = numbers_from(values, "weight-cuts"),
                        .replicas = numbers_from(values, "worker-replicas")};
  if (const auto path = optional_value<std::string>(values, "schedule-file")) {
    if (!values["schedule"].defaulted()) throw usage_error("--schedule and --schedule-file exclude each other");
    take_schedule_file(request, *path, fixed);
  } else if (fixed.given())
    request.fixed_stages = fixed_stages(fixed, static_cast<int>(request.profiles[0].model.layers.size()),
                                        static_cast<int>(cluster.ranks.size()),
                                        schedule_named(schedule == kAutoSchedule ? "1f1b" : schedule), request.chunks);
  return request;
}

void print_json(const std::string& path, const Plan& plan, const std::vector<std::string>& notes, double cost_s) {
  Json json = to_json(plan.figures);
  json["method"] = plan.method;
  json["status"] = plan.status;
  json["cost_s"] = cost_s;
  json["lower_bound_s"] = plan.lower_bound_s;
  json["schedule"] = plan.schedule;
  json["ranks"] = plan.cluster.ranks.size();
  json["plan"] = path;
  json["notes"] = notes;
  json["runners_up"] = Json::array();
  for (const PlanFigures& figures : plan.runners_up) json["runners_up"].push_back(to_json(figures));
  json["options"] = plan.options;
  std::cout << json.dump(2) << '\n';
}

void print_text(const std::string& path, const Plan& plan, const std::vector<std::string>& notes, double cost_s) {
  std::cout << path << ": " << headline(plan) << '\n' << candidates_table(plan);
  for (const std::string& note : notes) std::cout << note << '\n';
  std::cout << std::setprecision(12) << "bottleneck_s=" << plan.figures.bottleneck_s
            << " step_s=" << plan.figures.step_s << " cost_s=" << cost_s << " lower_bound_s=" << plan.lower_bound_s
            << " method=" << plan.method << " status=" << plan.status << '\n';
}

}  // namespace

int optimize_command(const Words& words) {
  const auto parsed = parse_options(syntax(), words, std::cout);
  if (!parsed) return static_cast<int>(ExitCode::done);
  const po::variables_map& values = *parsed;
  const std::string& output = values["output"].as<std::string>();
  refuse_conflicts(values);
  check_writable(output, kPlanSchema);
  std::vector<Profile> profiles = read_profiles(values);
  const ChosenCluster chosen = cluster_from(values, profiles.front().cluster);
  if (!chosen.assumption.empty()) std::cerr << "sluice: " << chosen.assumption << std::endl;

  auto [plan, notes, cost_s] = make_plan(request_from(values, std::move(profiles), chosen.cluster));
  plan.options = resolved_options(values);
  write_plan(output, plan, {command_line("sluice optimize", words), plan.options});
  values["json"].as<bool>() ? print_json(output, plan, notes, cost_s) : print_text(output, plan, notes, cost_s);
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
