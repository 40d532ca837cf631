#include "runtime/engine/start.h"

#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/route_choice.h"
#include "core/storage/in_file.h"
#include "core/storage/plan_file.h"
#include "core/text.h"
#include "core/verifier.h"
#include "runtime/comm/placement.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/support.h"

namespace sluice {
namespace {

void check_plan(const std::string& path, int ranks) {
  const Plan plan = read_plan(path);
  const auto planned = std::ssize(plan.cluster.ranks);
  if (planned != ranks)
    throw bad_input(text(path, " was made for ", planned, " ranks, but the job has ", ranks,
                         ": start it with mpiexec -n ", planned, " (srun --ntasks=", planned,
                         "), or make a plan with --ranks ", ranks));
  in_file(path, [&] { require_executable(plan); });
  if (const auto defect = verify(plan)) throw bad_input(text(path, ": ", to_string(*defect)));
}

/// The file that rank 0 has checked, at every rank.
Plan read_checked_plan(Communicator& world, const std::string& path) {
  on_rank_zero(world, [&] { check_plan(path, world.size()); });
  Plan plan;
  collectively(world, [&] { plan = read_plan(path); });
  const std::string checked = world.broadcast(text(digest(plan)));
  collectively(world, [&] {
    if (text(digest(plan)) != checked)
      throw bad_input(text(path, " is another plan on rank ", world.rank(), " than on rank 0: use a shared folder"));
  });
  return plan;
}

std::string list_text(const std::vector<int>& values) {
  std::string joined;
  for (const int value : values) joined += text(joined.empty() ? "" : ",", value);
  return joined;
}

}  // namespace

PlacedPlan start_plan(Communicator& world, const std::string& path, bool remap) {
  Plan plan = read_checked_plan(world, path);
  std::vector<int> planned;
  for (const RankSpec& rank : plan.cluster.ranks) planned.push_back(rank.node);
  std::vector<Rank> order = match_placement(planned, world.node_of_rank());
  if (!order.empty()) return {std::move(plan), world.permuted(order)};

  if (!remap)
    throw AgreedError(ExitCode::bad_input,
                      text(path, " puts its ranks on nodes ", list_text(planned), ", but the job's ranks are on nodes ",
                           list_text(world.node_of_rank()),
                           ": start it with that many ranks per node, or accept other times with --remap"));
  plan.cluster.node_names = world.node_names();
  for (std::size_t rank = 0; rank < plan.cluster.ranks.size(); ++rank)
    plan.cluster.ranks[rank].node = world.node_of_rank()[rank];
  choose_routes(plan);
  order.resize(planned.size());
  std::iota(order.begin(), order.end(), 0);
  return {std::move(plan), world.permuted(order), true};
}

}  // namespace sluice
