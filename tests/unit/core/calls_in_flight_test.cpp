#include "core/calls_in_flight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace sluice {
namespace {

TEST(CallsInFlight, numbers_calls_as_a_map_would_and_reuses_numbers) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    CallsInFlight calls;
    std::map<std::pair<int, int>, int> numbers;
    std::set<int> given;
    std::size_t most = 0;
    for (int round = 0; round < 20'000; ++round) {
      const std::pair call{static_cast<int>(random() % 20), static_cast<int>(random() % 30) - 1};
      const auto known = numbers.find(call);
      if (known == numbers.end()) {
        const int number = calls.number(call.first, call.second);
        ASSERT_TRUE(given.insert(number).second) << "two calls share number " << number;
        numbers[call] = number;
        most = std::max(most, numbers.size());
        ASSERT_LT(number, static_cast<int>(most)) << "no call has the number, but another is free";
      } else if (random() % 3 == 0) {
        calls.end(call.first, call.second);
        given.erase(known->second);
        numbers.erase(known);
      } else {
        ASSERT_EQ(calls.number(call.first, call.second), known->second);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
