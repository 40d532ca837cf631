#include "runtime/engine/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/index.h"

namespace sluice {

Maxima start_agreement(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int first, int microbatches) {
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
  return comm.start_max(std::move(values));
}

BatchLoss finish_agreement(Communicator& comm, Maxima maxima) {
  const std::vector<double> values = comm.finish_max(std::move(maxima));
  const auto sums = values.begin(), right = sums + std::ssize(values) / 2, flag = values.end() - 1;
  return {.sum = std::accumulate(sums, right, 0.0), .correct = std::accumulate(right, flag, 0.0), .finite = *flag <= 0};
}

BatchLoss agree_on_loss(Communicator& comm, const std::map<int, MicrobatchLoss>& own, int microbatches) {
  return finish_agreement(comm, start_agreement(comm, own, 0, microbatches));
}

}  // namespace sluice
