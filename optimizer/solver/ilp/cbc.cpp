#include <Cbc_C_Interface.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/ilp/mip.h"

namespace sluice {
namespace {

constexpr double kSurelyInTime = 0.9;  // of CBC's time limit: what it says later may be for want of time

double seconds_until(Deadline deadline) {
  if (deadline == kNoDeadline) return kUnbounded;
  return std::max(0.0, std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count());
}

/// Bytes between the two processes. False where the other end is gone or the deadline has passed.
class Channel {
 public:
  Channel(int socket, Deadline deadline) : socket_(socket), deadline_(deadline) {}

  template <typename Value>
  [[nodiscard]] bool put(const std::vector<Value>& values) const {
    const std::size_t size = values.size();
    return put_bytes(&size, sizeof size) && put_bytes(values.data(), size * sizeof(Value));
  }

  template <typename Value>
  [[nodiscard]] bool get(std::vector<Value>& values) const {
    std::size_t size = 0;
    if (!get_bytes(&size, sizeof size)) return false;
    values.resize(size);
    return get_bytes(values.data(), size * sizeof(Value));
  }

 private:
  [[nodiscard]] bool put_bytes(const void* data, std::size_t bytes) const {
    return move(POLLOUT, bytes, [&](std::size_t done) {
      return send(socket_, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    });
  }
  [[nodiscard]] bool get_bytes(void* data, std::size_t bytes) const {
    return move(POLLIN, bytes,
                [&](std::size_t done) { return recv(socket_, static_cast<char*>(data) + done, bytes - done, 0); });
  }

  template <typename Step>
  [[nodiscard]] bool move(short event, std::size_t bytes, const Step& step) const {
    for (std::size_t done = 0; done < bytes;) {
      if (!wait_for(event)) return false;
      const ssize_t moved = step(done);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return false;
      done += static_cast<std::size_t>(moved);
    }
    return true;
  }

  [[nodiscard]] bool wait_for(short event) const {
    for (;;) {
      pollfd waiting{.fd = socket_, .events = event, .revents = 0};
      const double left_ms = std::min(1000 * seconds_until(deadline_), 1e6);
      const int ready = poll(&waiting, 1, static_cast<int>(std::ceil(left_ms)));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
      if (ready == 0 && seconds_until(deadline_) <= 0) return false;
    }
  }

  int socket_;
  Deadline deadline_;
};

/// A program by columns without gaps, as Cbc_loadProblem wants it, and how long it may take.
struct Request {
  std::vector<int> starts{0}, rows, whole;
  std::vector<double> values, lower, upper, cost, row_lower, row_upper, seconds;

  Request() = default;
  Request(const Mip& mip, double limit_s) : seconds{limit_s} {
    std::vector<std::vector<std::pair<int, double>>> columns(mip.columns.size());  // row, coefficient
    for (int r = 0; r < std::ssize(mip.rows); ++r) {
      for (const Term& term : mip.rows[at(r)].terms) {
        auto& column = columns[at(term.column)];
        if (column.empty() || column.back().first != r) column.emplace_back(r, 0);
        column.back().second += term.coefficient;
      }
      row_lower.push_back(mip.rows[at(r)].lower);
      row_upper.push_back(mip.rows[at(r)].upper);
    }
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (const auto& [row, coefficient] : columns[c]) {
        rows.push_back(row);
        values.push_back(coefficient);
      }
      starts.push_back(static_cast<int>(rows.size()));
      lower.push_back(mip.columns[c].lower);
      upper.push_back(mip.columns[c].upper);
      cost.push_back(mip.columns[c].cost);
      if (mip.columns[c].whole) whole.push_back(static_cast<int>(c));
    }
  }

  [[nodiscard]] bool put(const Channel& channel) const {
    return channel.put(starts) && channel.put(rows) && channel.put(whole) && channel.put(values) &&
           channel.put(lower) && channel.put(upper) && channel.put(cost) && channel.put(row_lower) &&
           channel.put(row_upper) && channel.put(seconds);
  }
  [[nodiscard]] bool get(const Channel& channel) {
    return channel.get(starts) && channel.get(rows) && channel.get(whole) && channel.get(values) &&
           channel.get(lower) && channel.get(upper) && channel.get(cost) && channel.get(row_lower) &&
           channel.get(row_upper) && channel.get(seconds);
  }
};

MipResult run_cbc(const Request& request) {
  const std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> owner(Cbc_newModel(), &Cbc_deleteModel);
  Cbc_Model* const model = owner.get();
  Cbc_loadProblem(model, static_cast<int>(request.cost.size()), static_cast<int>(request.row_lower.size()),
                  request.starts.data(), request.rows.data(), request.values.data(), request.lower.data(),
                  request.upper.data(), request.cost.data(), request.row_lower.data(), request.row_upper.data());
  for (const int column : request.whole) Cbc_setInteger(model, column);
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "timeMode", "elapsed");
  Cbc_setParameter(model, "heuristicsOnOff", "off");  // branching finds plans soon; proofs take half the time
  if (request.seconds[0] < kUnbounded) Cbc_setMaximumSeconds(model, request.seconds[0]);
  const auto begin = std::chrono::steady_clock::now();
  Cbc_solve(model);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;

  // Stopped by its limit within its preprocessing or first relaxation, CBC calls the program infeasible.
  const bool in_time = taken.count() < kSurelyInTime * request.seconds[0];
  MipResult result;
  if (Cbc_isProvenInfeasible(model))
    return in_time ? MipResult{.status = MipStatus::infeasible, .values = {}, .bound = kUnbounded} : result;
  if (Cbc_isAbandoned(model)) return result;
  result.bound = Cbc_getBestPossibleObjValue(model);
  if (const double* best = Cbc_bestSolution(model)) result.values.assign(best, best + request.cost.size());
  if (Cbc_isProvenOptimal(model) && !result.values.empty()) result.status = MipStatus::optimal;
  return result;
}

[[noreturn]] void serve(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not to outlive the parent
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, file);
  const Channel channel(socket, kNoDeadline);
  for (Request request; request.get(channel);) {
    const MipResult result = run_cbc(request);
    const std::vector<double> head{static_cast<double>(result.status), result.bound};
    if (!channel.put(head) || !channel.put(result.values)) break;
  }
  _exit(0);
}

}  // namespace

void MipSolver::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw runtime_fault(text("no socket to a solver: ", std::strerror(errno)));
  child_ = fork();
  if (child_ == 0) {
    close(ends[0]);
    serve(ends[1]);
  }
  close(ends[1]);
  socket_ = ends[0];
  if (child_ > 0) return;
  close(socket_);
  throw runtime_fault(text("no process for a solver: ", std::strerror(errno)));
}

void MipSolver::stop() {
  if (child_ <= 0) return;
  close(socket_);
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = kNone;
}

MipResult MipSolver::solve(const Mip& mip, Deadline deadline) {
  if (child_ <= 0) start();
  const Channel channel(socket_, deadline);
  // CBC's own limit comes first: what it has found until then is worth having.
  const Request request(mip, 0.85 * seconds_until(deadline));
  std::vector<double> head;
  MipResult result;
  if (!request.put(channel) || !channel.get(head) || !channel.get(result.values)) {
    stop();
    return {};
  }
  result.status = static_cast<MipStatus>(static_cast<int>(head[0]));
  result.bound = head[1];
  return result;
}

}  // namespace sluice
