#include "runtime/engine/command/options.h"

#include <iostream>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

namespace po = boost::program_options;

namespace {

/// The text of a value of one of `Types`, the types that options have.
template <typename... Types>
std::string any_text(const boost::any& value) {
  std::string result;
  const auto try_type = [&]<typename T>(const T* held) {
    if (held != nullptr) result = text(*held);
  };
  (try_type(boost::any_cast<Types>(&value)), ...);
  return result;
}

}  // namespace

std::optional<po::variables_map> parse_options(const Communicator& world, const std::string& usage,
                                               const po::options_description& table,
                                               const std::vector<std::string>& words) {
  po::options_description all(table);
  all.add_options()("help,h", "print this and leave");
  po::variables_map values;
  try {
    // Guessing off: --step must not silently mean --steps.
    const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    const po::positional_options_description no_positions;
    po::store(po::command_line_parser(words).options(all).positional(no_positions).style(style).run(), values);
    if (values.count("help") > 0) {
      if (world.rank() == 0) std::cout << "usage: " << usage << "\n\n" << all;
      return std::nullopt;
    }
    po::notify(values);
  } catch (const po::error& error) {
    throw usage_error(text(error.what(), " (", usage.substr(0, usage.find(' ', usage.find(' ') + 1)), " --help)"));
  }
  return values;
}

std::map<std::string, std::string> resolved_options(const po::variables_map& values) {
  std::map<std::string, std::string> options;
  for (const auto& [name, value] : values)
    options[name] = any_text<std::string, bool, int, std::int64_t, std::uint64_t, float, double>(value.value());
  return options;
}

void require_at_least(const std::string& option, double value, double least) {
  if (!(value >= least)) throw usage_error(text("--", option, " is ", value, ", expected at least ", least));
}

}  // namespace sluice
