#pragma once

#include <string>

#include "core/timeline.h"

namespace sluice {

/// When would each instruction of a program start and end? Computes take
/// instruction_time; each message of a multicast waits for both ends' starts and
/// for its links, which serve one message at a time in order of readiness: inside
/// a node the sender's outgoing and the receiver's incoming link, between nodes
/// the two NICs, each direction on its own; it then takes message_time, and holds
/// its links that long. An all-reduce begins once all members have started and
/// the links of all edges of its ring are free; each edge then holds its links
/// for ring_time, and all are done when the last edge is. Times are rounded to whole nanoseconds one by one.
/// Peak memory is memory_use: all is allocated once.
/// @param plan  must have passed verify()
/// @throws Error (runtime fault) if the program stalls, (bad input) if it takes more than 100 years.
[[nodiscard]] Timeline simulate(const Plan& plan, const std::string& program = "step");

}  // namespace sluice
