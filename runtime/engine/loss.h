#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/comm/communicator.h"

namespace sluice {

/// Over the valid samples of a micro-batch, in their order.
struct MicrobatchLoss {
  double sum = 0;
  std::int64_t correct = 0;
};

/// Over a global batch.
struct BatchLoss {
  double sum = 0;  ///< of the micro-batches' sums, in their order
  double correct = 0;
  bool finite = true;              ///< all sums are
  std::vector<double> notes = {};  ///< the largest of each over all ranks
};

/// Each micro-batch's loss is known to the one rank that ran its loss layer; now all ranks know the batch's, the same
/// bits whoever ran which. Collective.
/// @param own    by micro-batch, 0..microbatches-1; all ranks' together are all
/// @param notes  what else the ranks tell each other with the same message; as many at all of them
[[nodiscard]] BatchLoss agree_on_loss(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int microbatches,
                                      const std::vector<double>& notes = {});

/// A batch's loss, being agreed on.
struct LossAgreement {
  Maxima maxima;
  int microbatches = 0;
};

/// The same in two halves, of which the first never blocks, for the micro-batches `first`.. `first` + microbatches - 1.
[[nodiscard]] LossAgreement start_agreement(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int first,
                                            int microbatches, const std::vector<double>& notes = {});
[[nodiscard]] BatchLoss finish_agreement(Communicator& comm, LossAgreement agreement);

}  // namespace sluice
