#include "optimizer/command/option_conflicts.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

namespace po = boost::program_options;

/// An option and its values that go together with something else.
struct Allowed {
  std::string option;
  Words values;
};

void require(const po::variables_map& values, const std::vector<Allowed>& rules, const std::string& cause,
             const std::string& way_out) {
  const auto given = resolved_options(values);
  for (const auto& [option, allowed] : rules) {
    if (values.count(option) == 0 || values[option].defaulted()) continue;
    const std::string& value = given.at(option);
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) continue;
    throw usage_error(
        text("--", option, value == "true" ? "" : " " + value, " cannot be had with ", cause, ": ", way_out));
  }
}

const std::string kWayOfCuts =
    "they leave nothing to search. Leave one of the two out; --worker-replicas gives fixed workers several ranks, and "
    "--weight-cuts cuts backward-weight apart";

void refuse_search_beside_fixed_cuts(const po::variables_map& values) {
  constexpr std::array kFixed{"forward-cuts", "backward-cuts", "weight-cuts", "worker-replicas"};
  const auto fixed = std::find_if(kFixed.begin(), kFixed.end(), [&](const char* o) { return values.count(o) > 0; });
  if (fixed == kFixed.end()) return;
  Words cuts{"joint", "independent"};
  if (values.count("weight-cuts") > 0) cuts = {"three"};
  require(values,
          {{"cuts", cuts},
           {"replicas", {"1"}},
           {"recompute", {"false"}},
           {"stages", {"intervals"}},
           {"free-backward", {"false"}},
           {"exactly", {"false"}},
           {"method", {"auto"}},
           {"cost", {"sluice"}}},
          text("--", *fixed), kWayOfCuts);
}

void refuse_what_other_costs_ignore(const po::variables_map& values) {
  const std::string& cost = values["cost"].as<std::string>();
  if (cost == "sluice") return;
  const bool msr = cost == "msr" || cost == "msr-apart";
  std::vector<Allowed> rules{{"cuts", {cost == "msr-apart" ? "independent" : "joint"}},
                             {"recompute", {"false"}},
                             {"free-backward", {"false"}},
                             {"method", {"auto", "dp"}}};
  if (msr)
    rules.insert(rules.end(), {{"stages", {"ideals"}},
                               {"replicas", {"1"}},
                               {"exactly", {"false"}},
                               {"data-reader", {"none"}},
                               {"schedule", {}},
                               {"global-batch", {}},
                               {"compute-only", {"false"}}});
  require(values, rules, "--cost " + cost,
          msr ? "it assigns every layer to one device, without a schedule. Leave one of the two out"
              : "PipeDream's planner cuts forward and backward together and recomputes nothing. Leave one of the two "
                "out");
}

}  // namespace

void refuse_conflicts(const po::variables_map& values) {
  refuse_search_beside_fixed_cuts(values);
  refuse_what_other_costs_ignore(values);
}

}  // namespace sluice
