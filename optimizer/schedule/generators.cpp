#include "optimizer/schedule/generators.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "core/schedule.h"
#include "core/text.h"
#include "optimizer/schedule/chimera.h"
#include "optimizer/schedule/cooperative.h"
#include "optimizer/schedule/interleaved.h"
#include "optimizer/schedule/slot_order.h"
#include "optimizer/schedule/zero_bubble.h"

namespace sluice {
namespace {

struct Generator {
  std::string_view schedule;
  Figure (*generate)(const Plan& plan, std::vector<Position> positions);
};

constexpr std::array kGenerators{
    Generator{"sequential", sequential},
    Generator{"gpipe", slot_order},
    Generator{"1f1b", slot_order},
    Generator{"interleaved-1f1b", interleaved},
    Generator{"chimera", chimera},
    Generator{"zb-h1", slot_order},
    Generator{"zb-v", zb_v},
    Generator{"cooperative", cooperative},
};

}  // namespace

Figure generate_step(const Plan& plan) {
  const std::string_view name = schedule_named(plan.schedule).name;
  const auto found = std::find_if(kGenerators.begin(), kGenerators.end(),
                                  [&](const Generator& generator) { return generator.schedule == name; });
  if (found == kGenerators.end()) throw bad_input(text("schedule ", name, " has no generator: give its text"));
  return found->generate(plan, step_positions(plan));
}

Figure generate_evaluate(const Plan& plan) {
  const bool fetches = schedule_named(plan.schedule).placement == Placement::cooperative;
  return (fetches ? stage_by_stage : waves_of_forwards)(plan, evaluate_positions(plan));
}

}  // namespace sluice
