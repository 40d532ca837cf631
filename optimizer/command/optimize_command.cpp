#include <charconv>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/storage/atomic_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/text.h"
#include "optimizer/command/cluster_options.h"
#include "optimizer/command/commands.h"
#include "optimizer/planner/planner.h"
#include "results/text_table.h"

namespace sluice {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

namespace {

/// Each makes instructions by the dozen: beyond this the limit of a plan's file is in sight.
constexpr double kMostMicrobatches = 1e6;

CommandSyntax syntax() {
  CommandSyntax syntax{"sluice optimize --profile PROFILE [--cluster CLUSTER] --ranks N -o PLAN [options]",
                       po::options_description("options", 100),
                       {}};
  syntax.table.add_options()("profile", po::value<std::string>()->required(), "profile to plan by");
  add_cluster_options(syntax.table);
  syntax.table.add_options()                                                                                     //
      ("schedule", po::value<std::string>()->default_value("1f1b"), "sequential, gpipe or 1f1b")                 //
      ("microbatches", po::value<int>()->default_value(8), "micro-batches a step")                               //
      ("cuts", po::value<std::string>()->default_value("independent"),                                           //
       "joint: a worker's backward has the layers of its forward; or independent")                               //
      ("forward-cuts", po::value<std::string>(), "fixed forward cuts, positions a,b,... one less than workers")  //
      ("backward-cuts", po::value<std::string>(), "fixed backward cuts; one of the two stands for both")         //
      ("objective", po::value<std::string>()->default_value("step"), "step or bottleneck")                       //
      ("method", po::value<std::string>()->default_value("auto"), "auto, dp or exhaustive")                      //
      ("compute-only", po::bool_switch(), "leave all traffic out; implies --objective bottleneck")               //
      ("exactly", po::bool_switch(), "give every rank some work")                                                //
      ("json", po::bool_switch(), "print one JSON object")                                                       //
      ("output,o", po::value<std::string>()->required(), "plan to write");
  return syntax;
}

std::optional<std::vector<int>> cuts_from(const po::variables_map& values, const std::string& name) {
  const auto list = optional_value<std::string>(values, name);
  if (!list) return std::nullopt;
  std::vector<int> cuts;
  const char* place = list->data();
  const char* end = place + list->size();
  while (place != end) {
    const auto [rest, error] = std::from_chars(place, end, cuts.emplace_back());
    const bool separated = rest == end || (*rest == ',' && rest + 1 != end);
    if (error != std::errc() || !separated)
      throw usage_error(text("--", name, " is '", *list, "', expected positions like 3,7"));
    place = rest == end ? end : rest + 1;
  }
  return cuts;
}

PlannerRequest request_from(const po::variables_map& values, const Profile& profile, const Cluster& cluster) {
  const int microbatches = values["microbatches"].as<int>();
  require_within("microbatches", microbatches, 1, kMostMicrobatches);
  (void)choice(values, "schedule", {"sequential", "gpipe", "1f1b"});
  const int method = choice(values, "method", {"auto", "dp", "exhaustive"});
  return {.search = {.profile = profile,
                     .cluster = cluster,
                     .schedule = values["schedule"].as<std::string>(),
                     .microbatches = microbatches,
                     .cuts = choice(values, "cuts", {"joint", "independent"}) == 0 ? Cuts::joint : Cuts::independent,
                     .method = method == 2 ? Method::exhaustive : Method::dp,
                     .compute_only = values["compute-only"].as<bool>()},
          .goal = choice(values, "objective", {"step", "bottleneck"}) == 0 ? Goal::step : Goal::bottleneck,
          .exactly = values["exactly"].as<bool>(),
          .forward_cuts = cuts_from(values, "forward-cuts"),
          .backward_cuts = cuts_from(values, "backward-cuts")};
}

Json to_json(const PlanFigures& figures) {
  return {{"cuts", figures.cuts},
          {"workers", figures.workers},
          {"forward_cuts", figures.forward_cuts},
          {"backward_cuts", figures.backward_cuts},
          {"bottleneck_s", figures.bottleneck_s},
          {"step_s", figures.step_s}};
}

void print_json(const std::string& path, const Plan& plan, const std::vector<std::string>& notes) {
  Json json = to_json(plan.figures);
  json["method"] = plan.method;
  json["status"] = plan.status;
  json["schedule"] = plan.schedule;
  json["microbatches"] = plan.microbatches;
  json["ranks"] = plan.cluster.ranks.size();
  json["plan"] = path;
  json["notes"] = notes;
  json["runners_up"] = Json::array();
  for (const PlanFigures& figures : plan.runners_up) json["runners_up"].push_back(to_json(figures));
  json["options"] = plan.options;
  std::cout << json.dump(2) << '\n';
}

void print_text(const std::string& path, const Plan& plan, const std::vector<std::string>& notes) {
  std::vector<std::vector<std::string>> rows{{"", "workers", "bottleneck", "step", "forward cuts", "backward cuts"}};
  const auto add = [&](const std::string& title, const PlanFigures& f) {
    rows.push_back({title + f.cuts, text(f.workers), format_seconds(f.bottleneck_s), format_seconds(f.step_s),
                    f.forward_cuts, f.backward_cuts});
  };
  add("chosen: ", plan.figures);
  for (const PlanFigures& figures : plan.runners_up) add("", figures);
  std::cout << path << ": " << plan.schedule << ", " << plan.microbatches << " micro-batches, "
            << plan.cluster.ranks.size() << " ranks\n"
            << text_table(rows);
  for (const std::string& note : notes) std::cout << note << '\n';
  std::cout << std::setprecision(12) << "bottleneck_s=" << plan.figures.bottleneck_s
            << " step_s=" << plan.figures.step_s << " method=" << plan.method << " status=" << plan.status << '\n';
}

}  // namespace

int optimize_command(const Words& words) {
  const auto parsed = parse_options(syntax(), words, std::cout);
  if (!parsed) return static_cast<int>(ExitCode::done);
  const po::variables_map& values = *parsed;
  const std::string& output = values["output"].as<std::string>();
  check_writable(output, kPlanSchema);
  const Profile profile = read_profile(values["profile"].as<std::string>());
  const ChosenCluster chosen = cluster_from(values);
  if (!chosen.assumption.empty()) std::cerr << "sluice: " << chosen.assumption << std::endl;

  auto [plan, notes] = make_plan(request_from(values, profile, chosen.cluster));
  plan.options = resolved_options(values);
  write_plan(output, plan, {command_line("sluice optimize", words), plan.options});
  values["json"].as<bool>() ? print_json(output, plan, notes) : print_text(output, plan, notes);
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
