#pragma once

namespace sluice {

/// a / b, rounded up. @param a  not negative
[[nodiscard]] constexpr int divided_up(int a, int b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace sluice
