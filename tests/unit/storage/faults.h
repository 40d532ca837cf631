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
#include <random>
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

/// Runs `step` again and again, with 1, 2, 3 ..., in a child that is killed after at most 0.1 s.
/// @return how many it finished for certain: one more may be done
inline std::int64_t steps_until_killed(std::mt19937& random, const std::function<void(std::int64_t)>& step) {
  int done[2];
  if (pipe(done) != 0) throw runtime_fault("there is no pipe to be had");
  const pid_t child = fork();
  if (child == 0)
    for (std::int64_t number = 1;; ++number) {
      step(number);
      if (write(done[1], "x", 1) != 1) _exit(1);
    }
  usleep(static_cast<useconds_t>(random() % 100'000));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(done[1]);
  std::int64_t finished = 0;
  for (char byte = 0; read(done[0], &byte, 1) == 1;) ++finished;
  close(done[0]);
  return finished;
}

}  // namespace sluice
