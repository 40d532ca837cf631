#pragma once

#include <functional>

#include "core/error.h"
#include "runtime/comm/communicator.h"

namespace sluice {

/// An error that every rank knows of and leaves with: said once, by rank 0.
/// Any other Error is known to its rank alone, and ends the job by the alarm (Communicator::call_off).
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `work` on every rank. If it throws on some, all ranks throw the lowest
/// failing rank's error as an AgreedError; what is no Error counts as a runtime fault. Collective; `work` itself must
/// not call collectives that a failing rank would miss.
void collectively(Communicator& comm, const std::function<void()>& work);

/// The same where rank 0 alone has something to do.
void on_rank_zero(Communicator& comm, const std::function<void()>& work);

}  // namespace sluice
