#include "runtime/comm/link_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/cost_model.h"
#include "core/error.h"

namespace sluice {
namespace {

std::vector<LinkSample> samples_of(const LinkClass& link, double noise = 0, unsigned seed = 0) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  std::vector<LinkSample> samples;
  for (std::int64_t bytes = 8; bytes <= 16 << 20; bytes *= 4)
    samples.push_back({bytes, message_time(link, bytes) * factor(random)});
  return samples;
}

TEST(LinkFit, finds_the_figures_of_exact_times) {
  for (const LinkClass& link : {LinkClass{1e-6, 1e10}, LinkClass{50e-6, 1.25e8}, LinkClass{0, 3e9}}) {
    const LinkFit fit = fit_link(samples_of(link));
    EXPECT_NEAR(fit.link.latency_s, link.latency_s, 1e-9 * link.latency_s + 1e-15);
    EXPECT_NEAR(fit.link.bandwidth_bytes_per_s / link.bandwidth_bytes_per_s, 1, 1e-9);
    EXPECT_LT(fit.largest_error, 1e-6);
  }
}

// Absolute least squares would let the large messages' noise swallow the latency.
TEST(LinkFit, tells_small_and_large_messages_within_the_noise) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const LinkClass link{2e-6, 5e9};
    const LinkFit fit = fit_link(samples_of(link, 0.1, seed));
    EXPECT_NEAR(fit.link.latency_s / link.latency_s, 1, 0.1);
    EXPECT_NEAR(fit.link.bandwidth_bytes_per_s / link.bandwidth_bytes_per_s, 1, 0.15);
    EXPECT_LE(fit.median_error, 0.1);
    EXPECT_LE(fit.median_error, fit.largest_error);
  }
}

TEST(LinkFit, is_no_worse_than_any_neighbouring_figures) {
  const auto cost = [](const LinkClass& link, const std::vector<LinkSample>& samples) {
    double sum = 0;
    for (const LinkSample& s : samples) sum += std::pow(message_time(link, s.bytes) / s.seconds - 1, 2);
    return sum;
  };
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::vector<LinkSample> samples = samples_of({3e-6, 2e9}, 0.5, seed);
    const LinkClass best = fit_link(samples).link;
    for (const double a : {0.99, 1.0, 1.01})
      for (const double b : {0.99, 1.0, 1.01})
        EXPECT_LE(cost(best, samples),
                  cost({best.latency_s * a, best.bandwidth_bytes_per_s * b}, samples) * (1 + 1e-12));
  }
}

TEST(LinkFit, keeps_latency_and_bandwidth_possible) {
  // A line through these times would start below 0.
  const LinkFit cheap_start = fit_link(std::vector<LinkSample>{{1000, 1e-9}, {2000, 1e-6}, {4000, 3e-6}});
  EXPECT_GE(cheap_start.link.latency_s, 0);
  EXPECT_GT(cheap_start.link.bandwidth_bytes_per_s, 0);
  // And this one would fall.
  const LinkFit falling = fit_link(std::vector<LinkSample>{{8, 3e-6}, {8000, 2e-6}});
  EXPECT_GT(falling.link.latency_s, 0);
  EXPECT_EQ(falling.link.bandwidth_bytes_per_s, std::numeric_limits<double>::infinity());
}

TEST(LinkFit, refuses_samples_that_cannot_tell) {
  EXPECT_THROW((void)fit_link({}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {8, 2e-6}}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {16, 0}}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {16, std::nan("")}}), Error);
}

}  // namespace
}  // namespace sluice
