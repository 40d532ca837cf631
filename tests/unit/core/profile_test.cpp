#include "core/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/core/small_models.h"

namespace sluice {
namespace {

TEST(Profile, refuses_costs_that_no_measurement_gives_and_names_the_layer) {
  const auto message_with = [](const std::function<void(Profile&)>& change) {
    Profile profile = small_models::profile_of_three();
    EXPECT_NO_THROW(validate(profile));
    change(profile);
    return small_models::bad_input_message([&] { validate(profile); });
  };
  EXPECT_EQ(message_with([](Profile& p) { p.costs[1].forward_s = NAN; }),
            "layer b: forward_s is nan, expected a finite number of at least 0");
  EXPECT_NE(message_with([](Profile& p) { p.costs[1].backward_input_s = -1; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[1].backward_weight_s = INFINITY; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[1].update_s = -1; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[2].parameter_bytes = -4; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[2].workspace_bytes = -4; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs.pop_back(); }), "");
  EXPECT_NE(message_with([](Profile& p) { p.model.needs.pop_back(); }), "");
}

}  // namespace
}  // namespace sluice
