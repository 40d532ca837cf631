#include "runtime/engine/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/index.h"

namespace sluice {

LossAgreement start_agreement(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int first, int microbatches,
                              const std::vector<double>& notes) {
  constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  const std::size_t count = at(microbatches);
  std::vector<double> values(2 * count + 1, kUnknown);  // sums, right ones, and 1 if a sum is not finite
  for (auto found = own.lower_bound(first); found != own.end() && found->first < first + microbatches; ++found) {
    const auto& [m, loss] = *found;
    // The maximum with a NaN is anything: a flag carries it.
    const bool finite = std::isfinite(loss.sum);
    values[at(m - first)] = finite ? loss.sum : 0;
    values[count + at(m - first)] = static_cast<double>(loss.correct);
    values.back() = std::max(values.back(), finite ? 0.0 : 1.0);
  }
  values.insert(values.end(), notes.begin(), notes.end());
  return {comm.start_max(std::move(values)), microbatches};
}

BatchLoss finish_agreement(Communicator& comm, LossAgreement agreement) {
  const std::vector<double> values = comm.finish_max(std::move(agreement.maxima));
  const auto sums = values.begin(), right = sums + agreement.microbatches, flag = right + agreement.microbatches;
  return {.sum = std::accumulate(sums, right, 0.0),
          .correct = std::accumulate(right, flag, 0.0),
          .finite = *flag <= 0,
          .notes = {flag + 1, values.end()}};
}

BatchLoss agree_on_loss(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int microbatches,
                        const std::vector<double>& notes) {
  return finish_agreement(comm, start_agreement(comm, own, 0, microbatches, notes));
}

}  // namespace sluice
