#include "core/profile.h"

#include <limits>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

void validate(const Layer& layer, const LayerCost& cost) {
  const auto check = [&](const char* quantity, auto value, auto most) {
    if (!(value >= 0 && value <= most))
      throw bad_input(text("layer ", layer.name, ": ", quantity, " is ", value, ", expected 0 to ", most));
  };
  check("forward_s", cost.forward_s, kMostSeconds);
  check("backward_input_s", cost.backward_input_s, kMostSeconds);
  check("backward_weight_s", cost.backward_weight_s, kMostSeconds);
  check("forward_spread_s", cost.forward_spread_s, kMostSeconds);
  check("backward_input_spread_s", cost.backward_input_spread_s, kMostSeconds);
  check("backward_weight_spread_s", cost.backward_weight_spread_s, kMostSeconds);
  check("update_s", cost.update_s, kMostSeconds);
  check("parameter_bytes", cost.parameter_bytes, kMostBytes);
  check("packed_bytes", cost.packed_bytes, kMostBytes);
  check("workspace_bytes", cost.workspace_bytes, kMostBytes);
  check("host_s", cost.host_s, kMostSeconds);
  check("flops", cost.flops, std::numeric_limits<double>::max());
  if (layer.kind != LayerKind::foreign && cost.parameter_bytes != parameter_bytes(layer))
    throw bad_input(text("layer ", layer.name, " has ", parameter_bytes(layer),
                         " bytes of parameters, but parameter_bytes is ", cost.parameter_bytes,
                         ": profile the model anew"));
}

}  // namespace

void validate(const Profile& profile) {
  validate(profile.model);
  if (profile.costs.size() != profile.model.layers.size())
    throw bad_input(
        text("the profile has ", profile.model.layers.size(), " layers but costs of ", profile.costs.size()));
  for (std::size_t layer = 0; layer < profile.costs.size(); ++layer)
    validate(profile.model.layers[layer], profile.costs[layer]);
  for (const int count : {profile.threads, profile.concurrent_ranks})
    if (count < 0) throw bad_input(text("threads or concurrent_ranks is ", count, ", expected at least 0"));
  if (profile.cluster) validate(*profile.cluster);
}

}  // namespace sluice
