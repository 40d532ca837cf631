#include "core/storage/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Random rather than the process id: other nodes may write into the same folder.
std::string temporary_name(const std::string& path) {
  std::random_device random;
  std::ostringstream suffix;
  suffix << std::hex << random() << random();
  return text(path, ".", suffix.str(), ".tmp");
}

void sync(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  // Some file systems cannot sync a folder and say EINVAL; there is nothing more to do then.
  const bool synced = file >= 0 && (fsync(file) == 0 || errno == EINVAL);
  const int error = errno;
  if (file >= 0) close(file);
  if (!synced) throw runtime_fault(text(path, ": cannot be synced to disk: ", std::strerror(error)));
}

/// @return 0, or what the system says (errno)
int append(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());  // the kernel takes 2 GiB at once, or less
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return fsync(file) == 0 ? 0 : errno;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

void sync_folder(const std::string& folder) { sync(folder, O_RDONLY | O_DIRECTORY); }

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  if (path_.empty()) throw bad_input("the name of the output is empty: name a file");
  std::error_code unreadable;  // then creating the temporary says why
  if (std::filesystem::is_directory(path_, unreadable))
    throw bad_input(text(path_, ": is a folder, expected a file to write"));
  if (std::filesystem::is_other(path_, unreadable))
    throw bad_input(text(path_, ": is a device or the like, expected a file to write"));
  const int file = open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0)
    throw bad_input(text(path_, ": cannot write into folder ", folder_of(path_), ": ", std::strerror(errno),
                         ": name another output"));
  close(file);
}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  const int file = open(temporary_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  int error = file < 0 ? errno : append(file, bytes);
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;  // some file systems say only then that they are full
  if (error != 0) throw runtime_fault(text(path_, ": cannot write ", bytes.size(), " bytes: ", std::strerror(error)));
}

void AtomicFile::commit() {
  sync(temporary_, O_RDONLY);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw runtime_fault(text(path_, ": cannot be renamed from ", temporary_, ": ", std::strerror(errno)));
  committed_ = true;
  sync_folder(folder_of(path_));
}

}  // namespace sluice
