#include "runtime/comm/communicator.h"

#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "runtime/comm/alarm.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/exit_guard.h"
#include "runtime/comm/messenger.h"
#include "runtime/comm/mpi_broadcast.h"
#include "runtime/comm/mpi_check.h"
#include "runtime/comm/node_map.h"
#include "runtime/comm/step_collective.h"

namespace sluice {

CommunicatorSettings CommunicatorSettings::from_environment() {
  CommunicatorSettings settings;
  const char* value = std::getenv("SLUICE_WAIT_LIMIT");
  if (value == nullptr) return settings;
  const char* end = value + std::strlen(value);
  const auto [rest, code] = std::from_chars(value, end, settings.wait_limit_s);
  if (code != std::errc{} || rest != end || !(settings.wait_limit_s >= 0 && settings.wait_limit_s <= kMostWaitLimit_s))
    throw usage_error(text("SLUICE_WAIT_LIMIT is '", value, "', expected seconds, 0 for no limit"));
  return settings;
}

bool Operation::done() const { return !collective_ || collective_->done(); }
LinkBytes Operation::sent_bytes() const { return collective_ ? collective_->sent_bytes() : LinkBytes{}; }
LinkBytes Operation::received_bytes() const { return collective_ ? collective_->received_bytes() : LinkBytes{}; }

class MaxInFlight {
 public:
  std::vector<double> values;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Communicator::Impl {
  Impl(MPI_Comm owned, NodeMap node_map, const CommunicatorSettings& chosen, std::shared_ptr<Alarm> of_process)
      : comm(owned),
        nodes(std::move(node_map)),
        settings(chosen),
        alarm(std::move(of_process)),
        messenger(comm.get(), nodes, settings.chunk_bytes) {
    check_mpi(MPI_Comm_rank(comm.get(), &rank), "MPI_Comm_rank");
  }

  /// @return true if anything moved
  bool advance() {
    if (failure) std::rethrow_exception(failure);
    try {
      const bool moved = messenger.advance();
      if (!moved) alarm->listen(waits);
      return moved;
    } catch (...) {
      failure = std::current_exception();
      alarm->must_end(static_cast<int>(ExitCode::runtime_fault));
      throw;
    }
  }

  /// The only wait loop. `missing` says what does not come, should it not come.
  template <typename Done, typename Missing>
  void wait_until(Done done, Missing missing) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    Backoff backoff;
    waits = true;
    while (!done()) {
      if (advance())
        backoff.reset();
      else
        backoff.pause();
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (settings.wait_limit_s > 0 && waited.count() > settings.wait_limit_s) give_up(missing(), waited.count());
    }
    waits = false;
  }

  [[noreturn]] void give_up(const std::string& missing, double waited_s) {
    alarm->must_end(static_cast<int>(ExitCode::runtime_fault));
    throw runtime_fault(text(missing, " not complete after ", waited_s, " s; the limit is ", settings.wait_limit_s,
                             " s (--wait-limit, SLUICE_WAIT_LIMIT; 0: none)"));
  }

  void finish(MPI_Request& request, const char* call) {
    const auto done = [&] {
      int flag = 0;
      check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), call);
      return flag != 0;
    };
    wait_until(done, [&] { return text("rank ", rank, ", ", call, " over ", nodes.node_of_rank.size(), " ranks:"); });
  }

  /// Collective over the group.
  void make_group_comm(const Group& group) {
    if (group_comms.contains(group)) return;
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_group(comm.get(), &all), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(all, static_cast<int>(group.members.size()), group.members.data(), &some),
              "MPI_Group_incl");
    check_mpi(MPI_Comm_create_group(comm.get(), some, 0, &made), "MPI_Comm_create_group");
    group_comms.try_emplace(group, made);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
  }

  CommHandle comm;
  std::map<Group, CommHandle> group_comms;  ///< of those whose multicasts are MPI's own
  NodeMap nodes;
  CommunicatorSettings settings;
  Rank rank = 0;
  std::shared_ptr<Alarm> alarm;
  bool waits = false;   // for other ranks or the device
  Messenger messenger;  // after comm: gives up its requests before comm is freed
  std::exception_ptr failure;
};

namespace {

int mpi_count(std::size_t elements) {
  if (elements > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw runtime_fault(text(elements, " elements in one collective, MPI counts to ", std::numeric_limits<int>::max()));
  return static_cast<int>(elements);
}

/// MPI's own blocking calls, of which there are some at the start, keep the wait limit as well.
std::unique_ptr<ExitGuard> bound(const char* call, const CommunicatorSettings& settings) {
  if (settings.wait_limit_s == 0) return nullptr;
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return std::make_unique<ExitGuard>(settings.wait_limit(), static_cast<int>(ExitCode::runtime_fault),
                                     text("sluice-run: world rank ", rank, ": ", call, " did not return within ",
                                          settings.wait_limit_s, " s (--wait-limit): not all ranks are there"));
}

bool is_permutation_of_ranks(std::span<const Rank> order, std::size_t size) {
  std::vector<bool> seen(size);
  for (const Rank rank : order) {
    const auto index = static_cast<std::size_t>(rank);
    if (rank < 0 || index >= size || seen[index]) return false;
    seen[index] = true;
  }
  return order.size() == size;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Communicator Communicator::world(const CommunicatorSettings& settings) {
  const auto guard = bound("MPI_Comm_dup", settings);
  MPI_Comm copy = MPI_COMM_NULL;  // its own tags, apart from everyone else's
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  NodeMap nodes = discover_nodes(copy);
  auto alarm = std::make_shared<Alarm>(copy, nodes);
  return Communicator(std::make_unique<Impl>(copy, std::move(nodes), settings, std::move(alarm)));
}

Communicator Communicator::permuted(std::span<const Rank> order) const {
  if (!is_permutation_of_ranks(order, impl_->nodes.node_of_rank.size()))
    throw runtime_fault(text("the new order of ranks is not a permutation of 0..", size() - 1));
  const auto guard = bound("MPI_Comm_split", impl_->settings);
  const auto key = std::find(order.begin(), order.end(), rank()) - order.begin();
  MPI_Comm reordered = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(impl_->comm.get(), 0, static_cast<int>(key), &reordered), "MPI_Comm_split");
  NodeMap nodes = sluice::permuted(impl_->nodes, order);
  impl_->alarm->rename(nodes);
  return Communicator(std::make_unique<Impl>(reordered, std::move(nodes), impl_->settings, impl_->alarm));
}

Rank Communicator::rank() const { return impl_->rank; }
int Communicator::size() const { return static_cast<int>(impl_->nodes.node_of_rank.size()); }
const std::vector<int>& Communicator::node_of_rank() const { return impl_->nodes.node_of_rank; }
const std::vector<std::string>& Communicator::node_names() const { return impl_->nodes.names; }
int Communicator::max_tag() const { return impl_->messenger.max_tag(); }
const LinkBytes& Communicator::sent_bytes() const { return impl_->messenger.sent_bytes(); }
const LinkBytes& Communicator::received_bytes() const { return impl_->messenger.received_bytes(); }

std::shared_ptr<const CollectivePart> Communicator::prepare(CollectiveKind kind, const Group& group, const Route& route,
                                                            std::int64_t bytes, const Cluster& cluster) {
  auto part = std::make_shared<CollectivePart>(collective_part(rank(), size(), kind, group, route, bytes, cluster));
  if (route.algorithm == Algorithm::mpi) {
    const auto guard = bound("MPI_Comm_create_group", impl_->settings);
    impl_->make_group_comm(group);
  }
  return part;
}

Operation Communicator::start(std::shared_ptr<const CollectivePart> part, void* data, int tag, Event ready) {
  std::shared_ptr<Collective> collective;
  if (part->route.algorithm == Algorithm::mpi)
    collective = std::make_shared<MpiBroadcast>(part, impl_->group_comms.at(part->group).get(),
                                                part->group.root == rank(), data, tag, ready);
  else
    collective = std::make_shared<StepCollective>(part, PayloadMemory(data), tag, ready);
  impl_->messenger.start(collective);
  return Operation(std::move(collective));
}

Operation Communicator::start_all_to_all(std::shared_ptr<const CollectivePart> part, const void* send, void* receive,
                                         int tag, Event ready) {
  const std::int64_t blocks = std::ssize(part->group.members) * part->bytes;
  std::int64_t end = 2 * blocks;
  for (const Step& step : part->steps) end = std::max(end, step.offset + step.bytes);
  PayloadMemory memory(const_cast<void*>(send));  // no step writes there
  memory.add(receive, blocks);
  memory.add_scratch(2 * blocks, end - 2 * blocks);
  const auto collective = std::make_shared<StepCollective>(std::move(part), std::move(memory), tag, std::move(ready));
  impl_->messenger.start(collective);
  return Operation(collective);
}

void Communicator::verify_transfers() { impl_->messenger.verify(); }

void Communicator::progress() { impl_->advance(); }

void Communicator::wait(Operation& operation) {
  impl_->wait_until([&] { return operation.done(); }, [&] { return impl_->messenger.missing(*operation.collective_); });
}

void Communicator::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(impl_->comm.get(), &request), "MPI_Ibarrier");
  impl_->finish(request, "MPI_Ibarrier");
}

void Communicator::all_max(std::span<double> values) {
  const std::vector<double> largest = finish_max(start_max({values.begin(), values.end()}));
  std::copy(largest.begin(), largest.end(), values.begin());
}

Maxima Communicator::start_max(std::vector<double> values) {
  auto state = std::make_shared<MaxInFlight>();
  state->values = std::move(values);
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, state->values.data(), mpi_count(state->values.size()), MPI_DOUBLE, MPI_MAX,
                           impl_->comm.get(), &state->request),
            "MPI_Iallreduce");
  return Maxima(std::move(state));
}

std::vector<double> Communicator::finish_max(Maxima maxima) {
  impl_->finish(maxima.state_->request, "MPI_Iallreduce");
  return std::move(maxima.state_->values);
}

std::string Communicator::broadcast(const std::string& text, Rank root) {
  const auto share = [&](void* data, std::int64_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, impl_->comm.get(), &request), "MPI_Ibcast");
    impl_->finish(request, "MPI_Ibcast");
  };
  auto length = static_cast<std::int64_t>(text.size());
  share(&length, sizeof length);
  std::string result = rank() == root ? text : std::string(static_cast<std::size_t>(length), '\0');
  for (std::int64_t offset = 0; offset < length; offset += impl_->settings.chunk_bytes)
    share(result.data() + offset, std::min(impl_->settings.chunk_bytes, length - offset));
  return result;
}

std::vector<double> Communicator::all_gather(std::span<const double> values) {
  std::vector<double> all(values.size() * static_cast<std::size_t>(size()));
  const int count = mpi_count(values.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Iallgather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, impl_->comm.get(), &request),
      "MPI_Iallgather");
  impl_->finish(request, "MPI_Iallgather");
  return all;
}

void Communicator::wait(const Event& event, const char* what) {
  impl_->wait_until([&] { return event.done(); }, [&] { return text(describe(rank()), ": ", what); });
}

std::string Communicator::describe(Rank rank) const { return sluice::describe(impl_->nodes, rank); }
double Communicator::wait_limit() const { return impl_->settings.wait_limit_s; }
void Communicator::set_wait_limit(double seconds) { impl_->settings.wait_limit_s = seconds; }

std::string Communicator::whoami() const { return impl_->alarm->whoami(); }
std::string Communicator::call_off(int exit_code) { return impl_->alarm->sound(exit_code); }
void Communicator::leave(int exit_code) { impl_->alarm->leave(exit_code); }

}  // namespace sluice
