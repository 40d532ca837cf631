#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "core/error.h"

/// Damaged files and full disks.
namespace sluice {

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void set_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);  // a file that is cut short and written anew goes to disk at once, which takes long
  std::ofstream(path, std::ios::binary) << bytes;
}

inline int rounds() {
  const char* given = std::getenv("SLUICE_TEST_ROUNDS");  // 1 in the quick run, more when soaking
  return given != nullptr ? std::atoi(given) : 1;
}

/// Runs `action` in a child whose files cannot grow beyond `limit` bytes, as on
/// a full disk. @return its exit code: that of the Error, 0 if there was none
inline int with_file_limit(rlim_t limit, const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit size{limit, limit};
    setrlimit(RLIMIT_FSIZE, &size);
    try {
      action();
    } catch (const Error& error) {
      exit(static_cast<int>(error.exit_code()));  // not _exit: HDF5 must survive its own end as well
    }
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace sluice
