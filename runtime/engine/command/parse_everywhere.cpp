#include <iostream>
#include <sstream>

#include "runtime/engine/agreement.h"
#include "runtime/engine/command/commands.h"

namespace sluice {

std::optional<boost::program_options::variables_map> parse_everywhere(
    Communicator& world, const CommandSyntax& syntax, const Words& words,
    const std::function<void(const boost::program_options::variables_map&)>& check) {
  std::optional<boost::program_options::variables_map> values;
  std::ostringstream help;
  collectively(world, [&] {
    values = parse_options(syntax, words, help);
    if (values && check) check(*values);
  });
  if (world.rank() == 0) std::cout << help.str();
  return values;
}

}  // namespace sluice
