// SPDX-License-Identifier: MIT
// Threads of tests: one that does one thing at a time, when it is told, so that what two threads do has an order; and
// several that start together, so that it has none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace coffer::test {

class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() { end(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Has the thread do `task`, and waits until it is done.
  void run(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    task_ = std::move(task);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !task_; });
  }

  // Ends the thread, and waits until its destructors have run.
  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return task_ || ended_; });
      if (!task_) return;
      task_();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  bool ended_ = false;
  std::thread thread_;
};

// Calls work(1) .. work(count), each in a thread of its own; none begins before all are there.
template <class Work>
void run_together(unsigned count, Work&& work) {
  std::atomic<unsigned> missing{count};
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= count; ++i) {
    threads.emplace_back([&, i] {
      missing.fetch_sub(1);
      while (missing.load() != 0) std::this_thread::yield();
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace coffer::test
