#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/index.h"
#include "core/prediction.h"
#include "core/storage/plan_file.h"
#include "core/verifier.h"
#include "optimizer/command/commands.h"
#include "results/text_table.h"

// simulate and verify: the interpreters of core on a plan's file.
namespace sluice {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

namespace {

std::optional<po::variables_map> parse_plan_options(const std::string& command, const Words& words) {
  CommandSyntax syntax{"sluice " + command + " PLAN [options]", po::options_description("options"), {"plan"}};
  syntax.table.add_options()                                       //
      ("plan", po::value<std::string>()->required(), "plan file")  //
      ("json", po::bool_switch(), "print one JSON object");
  return parse_options(syntax, words, std::cout);
}

double compute_s(const RankTimeline& timeline, const std::vector<Instruction>& list) {
  return static_cast<double>(compute_ns(timeline, list)) * 1e-9;
}

std::int64_t sum(const LinkBytes& bytes) { return bytes[0] + bytes[1]; }

Json simulation_json(const Plan& plan, const Prediction& prediction) {
  const Program& step = training_program(plan);
  const Timeline& timeline = prediction.timeline;
  Json json{{"step_s", prediction.step_s}, {"bubble", prediction.bubble}, {"ranks", Json::array()}};
  for (Rank rank = 0; rank < std::ssize(timeline.ranks); ++rank) {
    const RankTimeline& t = timeline.ranks[at(rank)];
    json["ranks"].push_back({{"compute_s", compute_s(t, step.ranks[at(rank)])},
                             {"intra_node_sent_bytes", t.sent_bytes[0]},
                             {"inter_node_sent_bytes", t.sent_bytes[1]},
                             {"intra_node_received_bytes", t.received_bytes[0]},
                             {"inter_node_received_bytes", t.received_bytes[1]},
                             {"peak_memory_bytes", t.peak_memory_bytes}});
  }
  return json;
}

void print_simulation(const Plan& plan, const Prediction& prediction) {
  const Program& step = training_program(plan);
  const Timeline& timeline = prediction.timeline;
  std::vector<std::vector<std::string>> rows{{"rank", "compute", "sent", "received", "memory"}};
  for (Rank rank = 0; rank < std::ssize(timeline.ranks); ++rank) {
    const RankTimeline& t = timeline.ranks[at(rank)];
    rows.push_back({std::to_string(rank), format_seconds(compute_s(t, step.ranks[at(rank)])),
                    format_mebibytes(sum(t.sent_bytes)), format_mebibytes(sum(t.received_bytes)),
                    format_mebibytes(t.peak_memory_bytes)});
  }
  std::cout << "one step of " << plan.microbatches << " micro-batches, " << plan.schedule << ":\n"
            << text_table(rows) << std::setprecision(12) << "step_s=" << prediction.step_s
            << " bubble=" << prediction.bubble << '\n';
}

}  // namespace

int simulate_command(const Words& words) {
  const auto values = parse_plan_options("simulate", words);
  if (!values) return static_cast<int>(ExitCode::done);
  const std::string& path = (*values)["plan"].as<std::string>();
  const Plan plan = read_plan(path);
  if (const auto defect = verify(plan)) throw bad_input(path + ": " + to_string(*defect));
  const Prediction prediction = predict_step(plan);
  if ((*values)["json"].as<bool>())
    std::cout << simulation_json(plan, prediction).dump(2) << '\n';
  else
    print_simulation(plan, prediction);
  return static_cast<int>(ExitCode::done);
}

int verify_command(const Words& words) {
  const auto values = parse_plan_options("verify", words);
  if (!values) return static_cast<int>(ExitCode::done);
  const std::string& path = (*values)["plan"].as<std::string>();
  const Plan plan = read_plan(path);
  const auto defect = verify(plan);
  if ((*values)["json"].as<bool>()) {
    Json json{{"verified", !defect}};
    if (defect)
      json["defect"] = {{"program", defect->program},
                        {"rank", defect->rank},
                        {"instruction", defect->instruction},
                        {"reason", defect->reason}};
    std::cout << json.dump(2) << '\n';
  }
  if (defect) throw bad_input(path + ": " + to_string(*defect));
  if (!(*values)["json"].as<bool>()) std::cout << path << ": verified\n";
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
