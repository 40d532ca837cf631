#pragma once

#include <boost/program_options.hpp>
#include <iosfwd>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

using Words = std::vector<std::string>;

/// What one command takes: the table makes both the parser and the help.
struct CommandSyntax {
  std::string usage;  ///< "sluice show FILE [options]"
  boost::program_options::options_description table;
  std::vector<std::string> positions;  ///< options that also stand without their name, in this order
};

/// Values by precedence: command line, environment (SLUICE_FORWARD_CUTS for
/// --forward-cuts), the ini file named by --config, default. Prints the help on
/// `out` and returns nothing if --help is among the words.
/// @throws Error (usage) for what cannot be parsed, (bad input) for a config file that cannot be read
[[nodiscard]] std::optional<boost::program_options::variables_map> parse_options(const CommandSyntax& syntax,
                                                                                 const Words& words, std::ostream& out);

/// All values, as text: what goes into the output's provenance.
[[nodiscard]] std::map<std::string, std::string> resolved_options(const boost::program_options::variables_map& values);

/// "sluice optimize" and its words as one line: the other half of the provenance.
[[nodiscard]] std::string command_line(const std::string& command, const Words& words);

/// The value if it was given or has a default.
template <typename T>
[[nodiscard]] std::optional<T> optional_value(const boost::program_options::variables_map& values,
                                              const std::string& name) {
  if (values.count(name) == 0) return std::nullopt;
  return values[name].as<T>();
}

/// @throws Error (usage) naming option, value and limits if the value is not in [least, most]
void require_within(const std::string& option, double value, double least,
                    double most = std::numeric_limits<double>::infinity());

/// One of `choices`, by name.
/// @throws Error (usage) naming the option, the value and the choices
[[nodiscard]] int choice(const boost::program_options::variables_map& values, const std::string& name,
                         const std::vector<std::string>& choices);

}  // namespace sluice
