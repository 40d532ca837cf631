#pragma once

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

/// The commands of sluice-run. Collective: every rank gets the same words.
/// @throws AgreedError or Error as in runtime/engine/agreement.h, Error (usage) for wrong words.
namespace sluice {

using Words = std::vector<std::string>;

void train_command(Communicator& world, const Words& words);
void profile_command(Communicator& world, const Words& words);
void probe_command(Communicator& world, const Words& words);

}  // namespace sluice
