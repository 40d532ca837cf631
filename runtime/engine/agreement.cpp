#include "runtime/engine/agreement.h"

#include <array>
#include <exception>
#include <string>

namespace sluice {

void collectively(Communicator& comm, const std::function<void()>& work) {
  std::array<double, 1> code{static_cast<double>(ExitCode::done)};
  std::string message;
  try {
    work();
  } catch (const Error& error) {
    code[0] = static_cast<double>(error.exit_code());
    message = error.what();
  } catch (const std::exception& error) {
    code[0] = static_cast<double>(ExitCode::runtime_fault);
    message = error.what();
  }
  const std::vector<double> codes = comm.all_gather(code);
  for (std::size_t rank = 0; rank < codes.size(); ++rank)
    if (codes[rank] != static_cast<double>(ExitCode::done))
      throw AgreedError(static_cast<ExitCode>(static_cast<int>(codes[rank])),
                        comm.broadcast(message, static_cast<Rank>(rank)));
}

void on_rank_zero(Communicator& comm, const std::function<void()>& work) {
  collectively(comm, [&] {
    if (comm.rank() == 0) work();
  });
}

}  // namespace sluice
