#pragma once

#include <string>

#include "core/error.h"

namespace sluice {

/// Another rank has met a fault and ends the job; it says why, this one need not.
class AlarmHeard : public Error {
 public:
  using Error::Error;
};

/// A collective that did not come to its end, or brought something wrong.
class TransferFault : public Error {
 public:
  TransferFault(int tag, const std::string& message) : Error(ExitCode::runtime_fault, message), tag_(tag) {}
  [[nodiscard]] int tag() const noexcept { return tag_; }  ///< as its start gave it

 private:
  int tag_;
};

}  // namespace sluice
