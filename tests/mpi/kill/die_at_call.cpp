// Preloaded into the ranks of a job: one of them dies, as by kill -9, at one of its calls that change files below a
// folder; at a write, when half of it is done. SLUICE_TEST_DIE="RANK CALL FOLDER", calls counted from 1.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls_left{0};  // 0: nobody dies
const char* folder = nullptr;
std::array<std::atomic<bool>, 1024> files_below{};

[[gnu::constructor]] void take_from_environment() {
  const char* wish = std::getenv("SLUICE_TEST_DIE");
  const char* rank = std::getenv("PMI_RANK");
  int wished_rank = 0, words = 0;
  long call = 0;
  if (wish == nullptr || rank == nullptr || std::sscanf(wish, "%d %ld %n", &wished_rank, &call, &words) != 2) return;
  folder = wish + words;
  if (wished_rank == std::atoi(rank)) calls_left = call;
}

void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

bool is_last() { return calls_left > 0 && --calls_left == 0; }
bool below(const char* path) { return folder != nullptr && path != nullptr && std::strstr(path, folder) != nullptr; }
bool below(int file) { return file >= 0 && file < static_cast<int>(files_below.size()) && files_below[file]; }

template <typename Place>
void count(Place place) {
  if (below(place) && is_last()) die();
}

int opened(int file, const char* path) {
  if (file >= 0 && file < static_cast<int>(files_below.size())) files_below[file] = below(path);
  return file;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// @param arguments  the mode, where a file may be made
int open_by(const char* name, const char* path, int flags, va_list arguments) {
  const bool makes = (flags & O_CREAT) != 0;
  const mode_t mode = makes ? va_arg(arguments, mode_t) : 0;
  if (makes) count(path);
  return opened(real<int(const char*, int, ...)>(name)(path, flags, mode), path);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_by("open", path, flags, arguments);
  va_end(arguments);
  return file;
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_by("open64", path, flags, arguments);
  va_end(arguments);
  return file;
}

ssize_t write(int file, const void* data, size_t bytes) {
  static const auto original = real<ssize_t(int, const void*, size_t)>("write");
  if (below(file) && is_last()) {
    (void)original(file, data, bytes / 2);
    die();
  }
  return original(file, data, bytes);
}

ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t position) {
  static const auto original = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  if (below(file) && is_last()) {
    (void)original(file, data, bytes / 2, position);
    die();
  }
  return original(file, data, bytes, position);
}

int fsync(int file) {
  count(file);
  return real<int(int)>("fsync")(file);
}

int rename(const char* from, const char* to) noexcept {
  count(to);
  return real<int(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) noexcept {
  count(path);
  return real<int(const char*)>("unlink")(path);
}

int unlinkat(int at, const char* path, int flags) noexcept {
  if (below(at)) count(at);
  return real<int(int, const char*, int)>("unlinkat")(at, path, flags);
}

int remove(const char* path) noexcept {
  count(path);
  return real<int(const char*)>("remove")(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  count(path);
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}

}  // extern "C"
