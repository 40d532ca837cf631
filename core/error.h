#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

/// What a Sluice process returns to its caller; the same number on all ranks.
enum class ExitCode : int {
  done = 0,
  runtime_fault = 1,
  usage = 2,
  bad_input = 3,
  infeasible = 4,  ///< also: a combination that a schedule does not support
  preempted = 75,  ///< stopped on request, resumable
};

/// The one exception type of the libraries. The message names the object, the
/// value, the limit and the way out; only `main` catches it.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}

  [[nodiscard]] ExitCode exit_code() const noexcept { return exit_code_; }

 private:
  ExitCode exit_code_;
};

[[nodiscard]] inline Error runtime_fault(const std::string& message) { return {ExitCode::runtime_fault, message}; }
[[nodiscard]] inline Error usage_error(const std::string& message) { return {ExitCode::usage, message}; }
[[nodiscard]] inline Error bad_input(const std::string& message) { return {ExitCode::bad_input, message}; }
[[nodiscard]] inline Error infeasible(const std::string& message) { return {ExitCode::infeasible, message}; }

}  // namespace sluice
