#include "core/schedule.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::array kSchedules{
    Schedule{.name = "sequential"},
    Schedule{.name = "gpipe"},
    Schedule{.name = "1f1b"},
    Schedule{.name = "zb-h1", .halves_backward = true, .delays_weights = true},
    Schedule{.name = "zb-v", .placement = Placement::vee, .halves_backward = true},
    Schedule{.name = "pipedream", .asynchronous = true},
    Schedule{.name = "pipedream-2bw", .asynchronous = true},
};

}  // namespace

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& schedule_named(std::string_view name) {
  const auto found =
      std::find_if(kSchedules.begin(), kSchedules.end(), [&](const Schedule& s) { return s.name == name; });
  if (found == kSchedules.end())
    throw bad_input(text("unknown schedule '", name, "', expected one of ", schedule_names()));
  return *found;
}

std::string schedule_names() {
  std::string names;
  for (const Schedule& schedule : kSchedules) names += text(names.empty() ? "" : ", ", schedule.name);
  return names;
}

}  // namespace sluice
