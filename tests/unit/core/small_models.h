#pragma once

#include <functional>
#include <string>

#include "core/plan.h"

namespace sluice::small_models {

/// input -> a -> b -> loss, where the loss also reads labels, with one auxiliary tensor at b.
/// Tensors: 0 input, 1 labels, 2 out_a, 3 out_b, 4 aux_b, 5 out_loss.
[[nodiscard]] Model chain_of_three();

/// chain_of_three with costs; layer l: forward l+1 s, backward 10(l+1) + 100(l+1) s, update 0.5 s.
[[nodiscard]] Profile profile_of_three();

/// Valid: two ranks, layers a and b forward at rank 0, all else at rank 1.
[[nodiscard]] Plan plan_of_three();

/// The message of the Error (bad input) that `action` throws; fails the test if it throws none.
[[nodiscard]] std::string bad_input_message(const std::function<void()>& action);

}  // namespace sluice::small_models
