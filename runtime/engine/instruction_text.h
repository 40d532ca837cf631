#pragma once

#include <cstdint>
#include <string>

#include "core/plan.h"

namespace sluice {

/// What a transfer carries, for people: "gradient of conv2/output, micro-batch 3, 4096 bytes by chain".
/// @param microbatch  kNone where there is none
[[nodiscard]] std::string describe(const Plan& plan, const Transfer& transfer, int microbatch);

/// An instruction under way, for the line of a fault: "step 12, program step, instruction 7 of 40, -T4.3
/// (multicast_wait; gradient of conv2/output, micro-batch 3, 4096 bytes by chain)".
/// @param index  in the rank's list
[[nodiscard]] std::string describe(const Plan& plan, const Program& program, Rank rank, int index, std::int64_t step);

}  // namespace sluice
