#include "runtime/comm/link_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/statistics.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::int64_t kSmallRange = 64;  // times the smallest size
constexpr std::int64_t kLargeRange = 16;  // times below the largest size

void check_samples(std::span<const LinkSample> samples) {
  if (samples.empty()) throw runtime_fault("no messages were measured");
  for (const auto& [bytes, seconds] : samples)
    if (!std::isfinite(seconds) || seconds <= 0 || bytes <= 0)
      throw runtime_fault(text("a message of ", bytes, " bytes took ", seconds, " s, both must be above 0"));
}

}  // namespace

LinkFit fit_link(std::span<const LinkSample> samples) {
  check_samples(samples);
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  std::int64_t largest = 0;
  for (const auto& [bytes, seconds] : samples) {
    smallest = std::min(smallest, bytes);
    largest = std::max(largest, bytes);
  }
  if (largest / kLargeRange <= smallest * kSmallRange)
    throw runtime_fault(
        text("messages of ", smallest, " to ", largest, " bytes do not tell latency and bandwidth apart"));

  std::vector<double> latencies;
  for (const auto& [bytes, seconds] : samples)
    if (bytes <= smallest * kSmallRange) latencies.push_back(seconds);
  LinkFit fit;
  fit.link.latency_s = median(latencies);

  std::vector<double> bandwidths;
  for (const auto& [bytes, seconds] : samples) {
    if (bytes < largest / kLargeRange) continue;
    const double moving_s = seconds - fit.link.latency_s;
    bandwidths.push_back(moving_s > 0 ? static_cast<double>(bytes) / moving_s
                                      : std::numeric_limits<double>::infinity());
  }
  fit.link.bandwidth_bytes_per_s = median(bandwidths);

  std::vector<double> errors;
  for (const auto& [bytes, seconds] : samples) errors.push_back(std::abs(message_time(fit.link, bytes) / seconds - 1));
  fit.median_error = median(errors);
  fit.largest_error = *std::max_element(errors.begin(), errors.end());
  return fit;
}

}  // namespace sluice
