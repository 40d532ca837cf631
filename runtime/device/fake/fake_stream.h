#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/device/fake/fake_device.h"

namespace sluice {

/// Numbers the work of all streams in the order of enqueueing, and decides
/// from the number how long each piece is delayed and whether it fails.
class FakeFate {
 public:
  explicit FakeFate(const FakeSettings& settings) : settings_(settings) {}
  [[nodiscard]] std::int64_t next() { return count_++; }
  [[nodiscard]] std::chrono::microseconds delay(std::int64_t number) const;
  [[nodiscard]] bool fails(std::int64_t number) const { return number == settings_.fail_at; }

 private:
  FakeSettings settings_;
  std::atomic<std::int64_t> count_ = 0;
};

/// A thread that runs what is enqueued, in order, each piece after its delay.
/// Destruction lets it finish.
class FakeStream : public Stream {
 public:
  using Work = std::function<void(Stream& inner)>;

  FakeStream(std::unique_ptr<Stream> inner, std::shared_ptr<FakeFate> fate, int openmp_threads);
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  ~FakeStream() override;

  void enqueue(Work work);
  Event record() override;
  void wait_for(const Event& event) override;

 private:
  using Task = std::function<void()>;
  void push(Task task);
  void run();                      ///< the thread's loop
  void attempt(const Task& task);  ///< skips once something failed; a failure is kept

  std::unique_ptr<Stream> inner_;
  std::shared_ptr<FakeFate> fate_;
  std::exception_ptr failure_;  ///< touched by the thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  ///< guarded by mutex_, as is closing_
  bool closing_ = false;
  std::thread thread_;  ///< last: it starts when the rest exists
};

}  // namespace sluice
