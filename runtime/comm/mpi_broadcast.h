#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "runtime/comm/collective_part.h"
#include "runtime/comm/messenger.h"

namespace sluice {

/// A multicast that is left to MPI_Ibcast on a communicator of the group, chunk after chunk. What it really sends is
/// MPI's own: the part's nominal steps are counted.
class MpiBroadcast : public Collective {
 public:
  /// @param comm  of the group's members in their order; outlives it
  /// @param sends whether this rank is the root
  MpiBroadcast(std::shared_ptr<const CollectivePart> part, MPI_Comm comm, bool sends, void* data, int tag, Event ready);

  [[nodiscard]] const char* name() const override { return "MPI_Ibcast"; }
  void begin(Messenger& messenger) override;
  void complete(Messenger& messenger, const Message& message) override;
  [[nodiscard]] bool done() const override { return begun_ && chunks_left_ == 0; }
  /// MPI pairs the members' calls by their order alone.
  [[nodiscard]] MPI_Comm queue() const override { return comm_; }

 private:
  std::shared_ptr<const CollectivePart> part_;
  MPI_Comm comm_;
  bool sends_;
  std::byte* data_;
  bool begun_ = false;
  int chunks_left_ = 0;
};

}  // namespace sluice
