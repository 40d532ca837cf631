#include <Cbc_C_Interface.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/ilp/mip.h"

namespace sluice {
namespace {

using Seconds = std::chrono::duration<double>;

double seconds_until(Deadline deadline) {
  if (deadline == kNoDeadline) return kUnbounded;
  return std::max(0.0, Seconds(deadline - std::chrono::steady_clock::now()).count());
}

/// By column without gaps, as Cbc_loadProblem wants it.
struct ColumnMatrix {
  std::vector<int> starts{0}, rows;
  std::vector<double> values;

  explicit ColumnMatrix(const Mip& mip) {
    std::vector<std::vector<Term>> columns(mip.columns.size());  // here Term::column is a row
    for (int r = 0; r < std::ssize(mip.rows); ++r)
      for (const Term& term : mip.rows[at(r)].terms) {
        std::vector<Term>& column = columns[at(term.column)];
        if (!column.empty() && column.back().column == r)
          column.back().coefficient += term.coefficient;
        else
          column.push_back({r, term.coefficient});
      }
    for (const std::vector<Term>& column : columns) {
      for (const Term& term : column) {
        rows.push_back(term.column);
        values.push_back(term.coefficient);
      }
      starts.push_back(static_cast<int>(rows.size()));
    }
  }
};

using Model = std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)>;

Model load(const Mip& mip) {
  Model model(Cbc_newModel(), &Cbc_deleteModel);
  const ColumnMatrix matrix(mip);
  std::vector<double> lower, upper, cost, row_lower, row_upper;
  for (const Mip::Column& column : mip.columns) {
    lower.push_back(column.lower);
    upper.push_back(column.upper);
    cost.push_back(column.cost);
  }
  for (const Mip::Row& row : mip.rows) {
    row_lower.push_back(row.lower);
    row_upper.push_back(row.upper);
  }
  Cbc_loadProblem(model.get(), static_cast<int>(mip.columns.size()), static_cast<int>(mip.rows.size()),
                  matrix.starts.data(), matrix.rows.data(), matrix.values.data(), lower.data(), upper.data(),
                  cost.data(), row_lower.data(), row_upper.data());
  for (int c = 0; c < std::ssize(mip.columns); ++c)
    if (mip.columns[at(c)].whole) Cbc_setInteger(model.get(), c);
  return model;
}

/// What the child tells, in front of the values.
struct Report {
  MipStatus status = MipStatus::stopped;
  bool has_values = false;
  double bound = -kUnbounded;
};

void write_all(int file, const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the parent then misses the rest
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void solve_and_report(const Mip& mip, double seconds, int pipe) {
  const Model model = load(mip);
  Cbc_setLogLevel(model.get(), 0);
  Cbc_setParameter(model.get(), "timeMode", "elapsed");
  Cbc_setParameter(model.get(), "heuristicsOnOff", "off");  // branching finds plans soon; proofs take half the time
  if (seconds < kUnbounded) Cbc_setMaximumSeconds(model.get(), seconds);
  Cbc_solve(model.get());
  Report report;
  if (Cbc_isProvenInfeasible(model.get()))
    report = {.status = MipStatus::infeasible, .has_values = false, .bound = kUnbounded};
  else if (!Cbc_isAbandoned(model.get()))
    report = {.status = Cbc_isProvenOptimal(model.get()) ? MipStatus::optimal : MipStatus::stopped,
              .has_values = Cbc_bestSolution(model.get()) != nullptr,
              .bound = Cbc_getBestPossibleObjValue(model.get())};
  write_all(pipe, &report, sizeof report);
  if (report.has_values) write_all(pipe, Cbc_bestSolution(model.get()), mip.columns.size() * sizeof(double));
}

[[noreturn]] void be_the_child(const Mip& mip, double seconds, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not to outlive the parent
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, file);
  solve_and_report(mip, seconds, pipe);
  _exit(0);
}

/// Until the child closes its end or the deadline has passed.
std::vector<char> read_until(int pipe, Deadline deadline) {
  std::vector<char> bytes;
  for (;;) {
    pollfd waiting{.fd = pipe, .events = POLLIN, .revents = 0};
    const double left_ms = std::min(1000 * seconds_until(deadline), 1e6);
    const int ready = poll(&waiting, 1, static_cast<int>(left_ms));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && seconds_until(deadline) > 0) continue;
    if (ready <= 0) return bytes;
    char buffer[65536];
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got <= 0) return bytes;
    bytes.insert(bytes.end(), buffer, buffer + got);
  }
}

MipResult parse(const std::vector<char>& bytes, std::size_t columns) {
  Report report;
  if (bytes.size() < sizeof report) return {};
  std::memcpy(&report, bytes.data(), sizeof report);
  MipResult result{.status = report.status, .values = {}, .bound = report.bound};
  if (!report.has_values) return result;
  if (bytes.size() != sizeof report + columns * sizeof(double)) return {};
  result.values.resize(columns);
  std::memcpy(result.values.data(), bytes.data() + sizeof report, columns * sizeof(double));
  return result;
}

}  // namespace

MipResult solve(const Mip& mip, Deadline deadline) {
  // CBC's own limit comes first: what it has found until then is worth having.
  const double seconds = 0.85 * seconds_until(deadline);
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) throw runtime_fault(text("no pipe to a solver: ", std::strerror(errno)));
  const pid_t child = fork();
  if (child == 0) be_the_child(mip, seconds, pipe[1]);
  close(pipe[1]);
  if (child < 0) {
    close(pipe[0]);
    throw runtime_fault(text("no process for a solver: ", std::strerror(errno)));
  }
  const std::vector<char> bytes = read_until(pipe[0], deadline);
  close(pipe[0]);
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return parse(bytes, mip.columns.size());
}

}  // namespace sluice
