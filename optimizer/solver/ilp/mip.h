#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "optimizer/solver/problem.h"

namespace sluice {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct Term {
  int column = 0;
  double coefficient = 1;
};
/// A sum. A column may come several times.
using Terms = std::vector<Term>;

/// A mixed-integer linear program as plain vectors: minimise the sum of
/// cost * column subject to lower <= row <= upper.
struct Mip {
  struct Column {
    double lower = 0, upper = 1;
    double cost = 0;
    bool whole = false;
  };
  struct Row {
    double lower = -kUnbounded, upper = kUnbounded;
    Terms terms;
  };
  std::vector<Column> columns;
  std::vector<Row> rows;

  int add(const Column& column);
  void at_most(double upper, Terms terms);
  void at_least(double lower, Terms terms);
  void equal(double value, Terms terms);

  /// Column `result` is 1 where each sum of `all` is 1 and all of `none` are 0. The sums
  /// are 0 or 1, those of `none` not negative; where the conditions do not hold, nothing is said.
  void one_where(int result, std::initializer_list<Terms> all, std::initializer_list<Terms> none = {});
};

void append(Terms& sum, const Terms& more, double factor = 1);

enum class MipStatus : std::uint8_t {
  optimal,
  infeasible,
  stopped,  ///< by the deadline, or because the solver failed
};

struct MipResult {
  MipStatus status = MipStatus::stopped;
  std::vector<double> values;  ///< by column; empty: none found
  double bound = -kUnbounded;  ///< no solution costs less; infinite if infeasible
};

/// COIN-OR CBC in a child process, which lives until a deadline has passed or it fails: CBC looks at its own time limit
/// only between steps that may take long, ends its process on some errors, and prints as it likes.
class MipSolver {
 public:
  MipSolver() = default;
  ~MipSolver() { stop(); }
  MipSolver(const MipSolver&) = delete;
  MipSolver& operator=(const MipSolver&) = delete;

  /// No more exact than CBC's tolerances: 1e-6 on whole columns, 1e-7 on rows.
  /// @throws Error (runtime fault) if no process can be made
  [[nodiscard]] MipResult solve(const Mip& mip, Deadline deadline);

 private:
  void start();
  void stop();
  int child_ = kNone;   ///< process id
  int socket_ = kNone;  ///< to the child
};

}  // namespace sluice
