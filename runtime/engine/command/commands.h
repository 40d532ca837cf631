#pragma once

#include <functional>
#include <optional>

#include "core/command/options.h"
#include "runtime/comm/communicator.h"

/// The commands of sluice-run. Collective: every rank gets the same words.
/// @throws AgreedError or Error as in runtime/engine/agreement.h, Error (usage) for wrong words.
namespace sluice {

void train_command(Communicator& world, const Words& words);
void profile_command(Communicator& world, const Words& words);
void probe_command(Communicator& world, const Words& words);

/// Adds --wait-limit to a command's options; parse_everywhere obeys it.
void add_wait_limit(boost::program_options::options_description& table, const Communicator& world);

/// Adds --threads; its default is what the launcher gave this rank.
void add_threads(boost::program_options::options_description& table, int& threads);

/// Parses on every rank, runs `check` on the values, and prints the help on rank 0.
/// @throws AgreedError (usage, bad input): environment and config file may differ between nodes.
[[nodiscard]] std::optional<boost::program_options::variables_map> parse_everywhere(
    Communicator& world, const CommandSyntax& syntax, const Words& words,
    const std::function<void(const boost::program_options::variables_map&)>& check = {});

}  // namespace sluice
