#include "runtime/device/fake/fake_stream.h"

#include <omp.h>

#include <utility>

#include "core/error.h"
#include "core/philox.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Set once, by the stream's thread.
class FakeMark : public Event::State {
 public:
  bool done() override {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return done_;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  void complete(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr failure_;
};

}  // namespace

std::chrono::microseconds FakeFate::delay(std::int64_t number) const {
  const PhiloxCounter words = philox({static_cast<std::uint32_t>(number), 0, 0, 0}, philox_key(settings_.seed, 0));
  return std::chrono::microseconds(words[0] % (static_cast<std::uint64_t>(settings_.max_delay.count()) + 1));
}

FakeStream::FakeStream(std::unique_ptr<Stream> inner, std::shared_ptr<FakeFate> fate, int openmp_threads)
    : inner_(std::move(inner)), fate_(std::move(fate)), thread_([this, openmp_threads] {
        omp_set_num_threads(openmp_threads);  // a new thread starts with the environment's count
        run();
      }) {}

FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FakeStream::enqueue(Work work) {
  push([this, number = fate_->next(), work = std::move(work)] {
    attempt([&] {
      std::this_thread::sleep_for(fate_->delay(number));
      if (fate_->fails(number)) throw runtime_fault(text("the fake device fails at piece of work ", number));
      work(*inner_);
    });
  });
}

Event FakeStream::record() {
  auto mark = std::make_shared<FakeMark>();
  push([this, mark] { mark->complete(failure_); });
  return Event(mark);
}

void FakeStream::wait_for(const Event& event) {
  push([this, event] { attempt([&] { event.wait(); }); });
}

void FakeStream::push(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void FakeStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void FakeStream::attempt(const Task& task) {
  if (failure_) return;
  try {
    task();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace sluice
