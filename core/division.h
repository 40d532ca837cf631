#pragma once

namespace sluice {

/// a / b, rounded up. @param a  not negative
[[nodiscard]] constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace sluice
