#pragma once

#include <random>
#include <string>

#include "core/plan.h"

namespace sluice {

/// Damages one instruction (or two, swapped) of a program at random: drop,
/// duplicate, swap near or far, move a little, retarget rank, micro-batch,
/// transfer, stage or (asynchronous plans) version; or drops a multicast at all its members. The plan still passes
/// validate().
/// @param program  of `plan`, not empty
/// @return what was done
std::string damage(const Plan& plan, Program& program, std::mt19937_64& random);

}  // namespace sluice
