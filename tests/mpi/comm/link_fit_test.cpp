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
  for (const LinkClass& link : {LinkClass{1e-6, 1e10}, LinkClass{50e-6, 1.25e8}, LinkClass{300e-6, 3e9}}) {
    const LinkFit fit = fit_link(samples_of(link));
    EXPECT_NEAR(fit.link.latency_s / link.latency_s, 1, 0.03);  // the small messages' own bytes
    EXPECT_NEAR(fit.link.bandwidth_bytes_per_s / link.bandwidth_bytes_per_s, 1, 1e-3);
    EXPECT_LT(fit.median_error, 0.03);
  }
}

TEST(LinkFit, stays_within_the_noise) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const LinkClass link{2e-6, 5e9};
    const LinkFit fit = fit_link(samples_of(link, 0.1, seed));
    EXPECT_NEAR(fit.link.latency_s / link.latency_s, 1, 0.15);
    EXPECT_NEAR(fit.link.bandwidth_bytes_per_s / link.bandwidth_bytes_per_s, 1, 0.12);
    EXPECT_LE(fit.median_error, 0.15);
    EXPECT_LE(fit.median_error, fit.largest_error);
  }
}

// A 1 Gb/s link behind a rate limiter with a burst of 128 KiB, as measured [us].
TEST(LinkFit, is_not_misled_by_bursts_at_the_middle_sizes) {
  std::vector<LinkSample> samples{{8, 6.5},       {32, 6.5},        {128, 6.5},       {512, 6.6},
                                  {2048, 7.2},    {8192, 32},       {32768, 139},     {131072, 563},
                                  {524288, 4375}, {2097152, 20052}, {8388608, 75478}, {16777216, 148265}};
  for (LinkSample& sample : samples) sample.seconds *= 1e-6;
  const LinkFit fit = fit_link(samples);
  EXPECT_NEAR(fit.link.latency_s, 6.5e-6, 0.2e-6);
  EXPECT_NEAR(fit.link.bandwidth_bytes_per_s, 125e6, 0.15 * 125e6);
  EXPECT_GT(fit.largest_error, 0.5);
}

TEST(LinkFit, gives_no_limit_to_a_link_whose_large_messages_take_no_longer) {
  const LinkFit fit = fit_link(std::vector<LinkSample>{{8, 3e-6}, {1 << 20, 2e-6}});
  EXPECT_EQ(fit.link.latency_s, 3e-6);
  EXPECT_EQ(fit.link.bandwidth_bytes_per_s, std::numeric_limits<double>::infinity());
}

TEST(LinkFit, refuses_samples_that_cannot_tell) {
  EXPECT_THROW((void)fit_link({}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {8, 2e-6}}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {8192, 2e-6}}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {1 << 20, 0}}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{0, 1e-6}, {1 << 20, 1e-3}}), Error);
  EXPECT_THROW((void)fit_link(std::vector<LinkSample>{{8, 1e-6}, {1 << 20, std::nan("")}}), Error);
}

}  // namespace
}  // namespace sluice
