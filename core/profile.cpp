#include "core/profile.h"

#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

void validate(const Profile& profile) {
  validate(profile.model);
  if (profile.costs.size() != profile.model.layers.size())
    throw bad_input(
        text("the profile has ", profile.model.layers.size(), " layers but costs of ", profile.costs.size()));
  for (std::size_t layer = 0; layer < profile.costs.size(); ++layer) {
    const LayerCost& cost = profile.costs[layer];
    const auto check = [&](const char* quantity, double value) {
      if (!std::isfinite(value) || value < 0)
        throw bad_input(text("layer ", profile.model.layers[layer].name, ": ", quantity, " is ", value,
                             ", expected a finite number of at least 0"));
    };
    check("forward_s", cost.forward_s);
    check("backward_input_s", cost.backward_input_s);
    check("backward_weight_s", cost.backward_weight_s);
    check("forward_spread_s", cost.forward_spread_s);
    check("backward_input_spread_s", cost.backward_input_spread_s);
    check("backward_weight_spread_s", cost.backward_weight_spread_s);
    check("update_s", cost.update_s);
    check("parameter_bytes", static_cast<double>(cost.parameter_bytes));
    check("packed_bytes", static_cast<double>(cost.packed_bytes));
    check("workspace_bytes", static_cast<double>(cost.workspace_bytes));
    check("flops", cost.flops);
  }
}

}  // namespace sluice
