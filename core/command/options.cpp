#include "core/command/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

namespace po = boost::program_options;

namespace {

/// "forward-cuts" is SLUICE_FORWARD_CUTS in the environment.
std::string variable_of(const std::string& option) {
  std::string name = "SLUICE_" + option;
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

/// The text of a value of one of `Types`, the types that options have.
template <typename... Types>
std::string any_text(const boost::any& value) {
  std::ostringstream stream;
  stream << std::boolalpha;
  const auto write = [&]<typename T>(const T* held) {
    if (held != nullptr) stream << *held;
  };
  (write(boost::any_cast<Types>(&value)), ...);
  if (const auto* list = boost::any_cast<Words>(&value))
    for (const std::string& word : *list) stream << (&word == list->data() ? "" : " ") << word;
  return stream.str();
}

void store_command_line(const CommandSyntax& syntax, const po::options_description& table, const Words& words,
                        po::variables_map& values) {
  po::positional_options_description positions;
  for (const std::string& name : syntax.positions) positions.add(name.c_str(), 1);
  // Guessing off: --rank must not silently mean --ranks.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::store(po::command_line_parser(words).options(table).positional(positions).style(style).run(), values);
}

void store_environment(const po::options_description& table, po::variables_map& values) {
  const auto option_of = [&](const std::string& variable) {
    for (const auto& option : table.options())
      if (variable_of(option->long_name()) == variable) return option->long_name();
    return std::string();
  };
  po::store(po::parse_environment(table, option_of), values);
}

void store_config(const po::options_description& table, po::variables_map& values) {
  if (values.count("config") == 0) return;
  const std::string& path = values["config"].as<std::string>();
  std::ifstream file(path);
  if (!file) throw bad_input(text(path, ": cannot be opened for reading"));
  // One file may serve all commands: options of others are not an error.
  po::store(po::parse_config_file(file, table, true), values);
  if (file.bad()) throw bad_input(text(path, ": cannot be read, it may be a folder"));
}

}  // namespace

std::optional<po::variables_map> parse_options(const CommandSyntax& syntax, const Words& words, std::ostream& out) {
  po::options_description table(syntax.table);
  table.add_options()("config", po::value<std::string>(), "ini file with values of these options");
  table.add_options()("help,h", "print this and leave");
  po::variables_map values;
  try {
    store_command_line(syntax, table, words, values);
    if (values.count("help") > 0) {
      out << "usage: " << syntax.usage << "\n\n" << table;
      return std::nullopt;
    }
    store_environment(table, values);
    store_config(table, values);
    po::notify(values);
  } catch (const po::error& error) {
    throw usage_error(text(error.what(), "\nusage: ", syntax.usage));
  }
  return values;
}

std::map<std::string, std::string> resolved_options(const po::variables_map& values) {
  std::map<std::string, std::string> options;
  for (const auto& [name, value] : values)
    options[name] = any_text<std::string, bool, int, std::int64_t, float, double>(value.value());
  return options;
}

std::string command_line(const std::string& command, const Words& words) {
  std::string line = command;
  for (const std::string& word : words) line += " " + word;
  return line;
}

void require_within(const std::string& option, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw usage_error(text("--", option, " is ", value, ", expected ",
                         std::isfinite(most) ? text(least, " to ", most) : text("at least ", least)));
}

int choice(const po::variables_map& values, const std::string& name, const std::vector<std::string>& choices) {
  const std::string& value = values[name].as<std::string>();
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  std::string list;
  for (const std::string& known : choices) list += (list.empty() ? "" : ", ") + known;
  throw usage_error(text("--", name, " is '", value, "', expected one of ", list));
}

}  // namespace sluice
