#include "runtime/engine/stop_request.h"

#include <cstring>

#include "core/text.h"

namespace sluice {
namespace {

volatile std::sig_atomic_t noted_signal = 0;

void note(int signal) {
  if (noted_signal == 0) noted_signal = signal;
}

void install(int signal, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // a file that is being written is not to see an error for it
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, &before);
}

void restore(int signal, const struct sigaction& before) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  if (now.sa_handler == note) sigaction(signal, &before, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if (now.sa_handler != note) noted_signal = 0;
  install(SIGTERM, before_term_);
  install(SIGUSR1, before_usr1_);
}

StopRequest::~StopRequest() {
  restore(SIGTERM, before_term_);
  restore(SIGUSR1, before_usr1_);
}

int StopRequest::signal() const { return noted_signal; }

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? text("SIG", name) : text("signal ", signal);
}

}  // namespace sluice
