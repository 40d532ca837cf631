#pragma once

namespace sluice {

/// a / b, rounded up. @param a  not negative
[[nodiscard]] constexpr int divided_up(int a, int b) { return a / b + (a % b > 0 ? 1 : 0); }

/// a / b, rounded down, also below 0.
[[nodiscard]] constexpr int divided_down(int a, int b) { return a >= 0 ? a / b : -divided_up(-a, b); }

}  // namespace sluice
