#include "core/schedule.h"

#include <algorithm>
#include <array>

#include "core/division.h"
#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::array kSchedules{
    Schedule{.name = "sequential"},
    Schedule{.name = "gpipe"},
    Schedule{.name = "1f1b"},
    Schedule{.name = "interleaved-1f1b", .placement = Placement::round_robin},
    Schedule{.name = "chimera", .placement = Placement::both_ways},
    Schedule{.name = "zb-h1", .halves_backward = true, .delays_weights = true},
    Schedule{.name = "zb-v", .placement = Placement::vee, .halves_backward = true},
    Schedule{.name = "pipedream", .asynchronous = true},
    Schedule{.name = "pipedream-2bw", .asynchronous = true},
    Schedule{.name = "cooperative", .placement = Placement::cooperative},
};

constexpr Schedule kFromFile{.name = kFileSchedule, .placement = Placement::given};

}  // namespace

bool is_placed(Placement placement) {
  return placement == Placement::round_robin || placement == Placement::vee || placement == Placement::both_ways;
}

std::vector<Rank> owners_at(Placement placement, int position, int ranks) {
  switch (placement) {
    case Placement::line:
    case Placement::cooperative:
      return {position};
    case Placement::round_robin:
      return {position % ranks};
    case Placement::vee:
      return {std::min(position, 2 * ranks - 1 - position)};
    case Placement::both_ways:
      return {position, ranks - 1 - position};
    case Placement::given:
      break;
  }
  return {};
}

int positions_of(Placement placement, int ranks, int chunks) {
  if (placement == Placement::round_robin) return chunks * ranks;
  return placement == Placement::vee ? 2 * ranks : ranks;
}

int interleaved_group(int microbatches, int ranks) {
  const int groups = std::max(1, microbatches / ranks);
  return divided_up(microbatches, groups);
}

std::span<const Schedule> schedules() { return kSchedules; }

const Schedule& schedule_named(std::string_view name) {
  if (name == kFileSchedule) return kFromFile;
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
