#pragma once

#include <boost/program_options.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace sluice {

/// Parses a command's words by its table. With --help, rank 0 prints `usage`
/// and the table, and nothing is returned.
/// @throws Error (usage) on unknown, missing or malformed options.
[[nodiscard]] std::optional<boost::program_options::variables_map> parse_options(
    const Communicator& world, const std::string& usage, const boost::program_options::options_description& table,
    const std::vector<std::string>& words);

/// Every option that has a value, as text: for the record of a run.
[[nodiscard]] std::map<std::string, std::string> resolved_options(const boost::program_options::variables_map& values);

/// @throws Error (usage) naming option, value and limit if it is below `least`.
void require_at_least(const std::string& option, double value, double least);

}  // namespace sluice
