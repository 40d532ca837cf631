#include "datasets/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

/// A file that zlib decompresses, or passes through if it is plain.
class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw bad_input(text(path, ": cannot be read: ", std::strerror(errno)));
  }

  void read(std::uint8_t* target, std::size_t bytes) {
    const int count = gzread(file_.get(), target, static_cast<unsigned>(bytes));
    if (count < 0) fail();
    if (static_cast<std::size_t>(count) < bytes)
      throw bad_input(text(path_, ": ends too early, ", bytes - static_cast<std::size_t>(count), " bytes are missing"));
  }

  /// Also lets zlib compare the checksum, which follows the last byte.
  void expect_end() {
    std::uint8_t extra = 0;
    const int count = gzread(file_.get(), &extra, 1);
    if (count < 0) fail();
    if (count > 0) throw bad_input(text(path_, ": goes on after the elements that its header promises"));
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  [[noreturn]] void fail() {
    int code = Z_OK;
    const std::string reason = gzerror(file_.get(), &code);
    throw bad_input(text(path_, ": cannot be read: ", code == Z_ERRNO ? std::strerror(errno) : reason.c_str()));
  }

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

std::int64_t read_extent(GzipFile& file) {
  std::uint8_t bytes[4];
  file.read(bytes, sizeof bytes);
  return (std::int64_t{bytes[0]} << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3];
}

/// Grows as it reads: a damaged header must not claim memory that the file cannot fill.
std::vector<std::uint8_t> read_elements(GzipFile& file, std::int64_t count) {
  constexpr std::int64_t kPiece = 1 << 20;
  std::vector<std::uint8_t> values;
  while (std::ssize(values) < count) {
    const auto piece = static_cast<std::size_t>(std::min(kPiece, count - std::ssize(values)));
    values.resize(values.size() + piece);
    file.read(values.data() + values.size() - piece, piece);
  }
  return values;
}

}  // namespace

IdxArray read_idx(const std::string& path, std::size_t rank) {
  GzipFile file(path);
  std::uint8_t magic[4];
  file.read(magic, sizeof magic);
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || magic[3] != rank)
    throw bad_input(text(path, ": begins with the bytes ", +magic[0], " ", +magic[1], " ", +magic[2], " ", +magic[3],
                         ", expected 0 0 8 ", rank, " (IDX, unsigned bytes, rank ", rank, ")"));
  IdxArray array;
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    array.shape.push_back(read_extent(file));
    if (__builtin_mul_overflow(count, array.shape.back(), &count))
      throw bad_input(text(path, ": the extents in its header are too large"));
  }
  array.values = read_elements(file, count);
  file.expect_end();
  return array;
}

}  // namespace sluice
