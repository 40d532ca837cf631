#include "runtime/engine/weights_output.h"

#include <filesystem>

#include "core/storage/weights_file.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"

namespace sluice {
namespace {

std::string part_name(const std::string& path, Rank rank) { return text(path, ".rank", rank, ".part"); }

/// One rank's part of the weights, gone when all is merged, or when that failed.
class Part {
 public:
  explicit Part(std::string path) : path_(std::move(path)) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    std::error_code gone;
    std::filesystem::remove(path_, gone);
  }

 private:
  std::string path_;
};

}  // namespace

void save_weights(Communicator& comm, Executor& executor, const std::string& path, const Provenance& provenance) {
  const Part own(part_name(path, comm.rank()));
  collectively(comm, [&] { write_weights(part_name(path, comm.rank()), weights_of(executor.state())); });
  on_rank_zero(comm, [&] {
    Weights all;
    for (Rank rank = 0; rank < comm.size(); ++rank) all.merge(read_weights(part_name(path, rank)));
    write_weights(path, all, provenance);
  });
}

}  // namespace sluice
