#include "runtime/comm/link_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

void check_samples(std::span<const LinkSample> samples) {
  for (const LinkSample& sample : samples)
    if (!std::isfinite(sample.seconds) || sample.seconds <= 0 || sample.bytes < 0)
      throw runtime_fault(
          text("a message of ", sample.bytes, " bytes took ", sample.seconds, " s, expected more than 0"));
  const auto [least, most] = std::minmax_element(samples.begin(), samples.end(),
                                                 [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (samples.empty() || least->bytes == most->bytes)
    throw runtime_fault(text(samples.size(), " messages of one size do not tell latency and bandwidth apart"));
}

/// Minimises sum ((latency + bytes * slope) / seconds - 1)^2.
LinkClass least_squares(std::span<const LinkSample> samples) {
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;  // weighted sums of 1, n, n^2, t, n t
  for (const auto& [bytes, seconds] : samples) {
    const auto n = static_cast<double>(bytes);
    const double weight = 1 / (seconds * seconds);
    w += weight;
    wn += weight * n;
    wnn += weight * n * n;
    wt += weight * seconds;
    wnt += weight * n * seconds;
  }
  const double determinant = w * wnn - wn * wn;
  double latency = (wnn * wt - wn * wnt) / determinant;
  double slope = (w * wnt - wn * wt) / determinant;
  // On the edge of what is possible the best fit has one figure only.
  if (latency < 0) {
    latency = 0;
    slope = wnt / wnn;
  } else if (slope <= 0) {
    latency = wt / w;
    slope = 0;
  }
  return {latency, slope > 0 ? 1 / slope : std::numeric_limits<double>::infinity()};
}

}  // namespace

LinkFit fit_link(std::span<const LinkSample> samples) {
  check_samples(samples);
  LinkFit fit{.link = least_squares(samples)};
  std::vector<double> errors;
  for (const LinkSample& sample : samples)
    errors.push_back(std::abs(message_time(fit.link, sample.bytes) / sample.seconds - 1));
  std::sort(errors.begin(), errors.end());
  fit.median_error = errors[errors.size() / 2];
  fit.largest_error = errors.back();
  return fit;
}

}  // namespace sluice
