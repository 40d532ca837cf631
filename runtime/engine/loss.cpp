#include "runtime/engine/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/index.h"

namespace sluice {

BatchLoss agree_on_loss(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int microbatches) {
  constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  const std::size_t count = at(microbatches);
  std::vector<double> values(2 * count + 1, kUnknown);  // sums, right ones, and 1 if a sum is not finite
  for (const auto& [m, loss] : own) {
    // The maximum with a NaN is anything: a flag carries it.
    const bool finite = std::isfinite(loss.sum);
    values[at(m)] = finite ? loss.sum : 0;
    values[count + at(m)] = static_cast<double>(loss.correct);
    values.back() = std::max(values.back(), finite ? 0.0 : 1.0);
  }
  comm.all_max(values);
  const auto sums = values.begin(), right = sums + microbatches, flag = right + microbatches;
  return {.sum = std::accumulate(sums, right, 0.0), .correct = std::accumulate(right, flag, 0.0), .finite = *flag <= 0};
}

}  // namespace sluice
