#pragma once

#include "core/command/options.h"

namespace sluice {

// One function a command: parses its words, does the work, returns the exit code.
[[nodiscard]] int export_command(const Words& words);
[[nodiscard]] int import_command(const Words& words);
[[nodiscard]] int optimize_command(const Words& words);
[[nodiscard]] int simulate_command(const Words& words);
[[nodiscard]] int verify_command(const Words& words);
[[nodiscard]] int show_command(const Words& words);
[[nodiscard]] int report_command(const Words& words);

}  // namespace sluice
