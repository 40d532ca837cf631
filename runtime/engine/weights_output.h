#pragma once

#include <string>

#include "core/storage/writer.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/executor.h"

namespace sluice {

/// Writes all layers' weights to `path`: each is written by the first
/// rank that updates it to a part beside it, rank 0 merges the parts and removes them.
/// Collective.
/// @throws AgreedError (runtime fault) if that fails; an older file under the name then stays.
void save_weights(Communicator& comm, Executor& executor, const std::string& path, const Provenance& provenance);

}  // namespace sluice
