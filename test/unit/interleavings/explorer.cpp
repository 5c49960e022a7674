// SPDX-License-Identifier: MIT
#include "interleavings/explorer.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "base/base.hpp"
#include "fresh.hpp"
#include "interleavings/scheduler.hpp"
#include "os/fake/fake.hpp"

// These tests have the real calls of the system: the whole process stays on one processor, if it may.
namespace coffer::os::fake {
void set_current_processor(u32 number) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(number, &one);
  sched_setaffinity(0, sizeof one, &one);
}
}  // namespace coffer::os::fake

namespace coffer::test {

namespace {

constexpr usize kNobody = ~usize{0};

// One decision that was open: which of the threads that could run went on.
struct Choice {
  usize taken, count;
};

// Sleeps at once: std::binary_semaphore yields the processor a few times first, to whatever else the machine does.
class Semaphore {
 public:
  Semaphore() { sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  void release() { sem_post(&semaphore_); }
  void acquire() {
    while (sem_wait(&semaphore_) != 0) {
    }
  }

 private:
  sem_t semaphore_;
};

struct Runner {
  Semaphore turn;
  const bool* waits_for = nullptr;  // a lock that another thread holds
  bool finished = false;
  std::thread thread;
};

// While one lives, all threads share the processor that its maker was on. They run one at a time, and handing over is
// several times as fast as on another one, which has to wake up first.
class OneProcessor {
 public:
  OneProcessor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    const int processor = sched_getcpu();
    if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    CPU_SET(processor, &one);
    pinned_ = sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  ~OneProcessor() {
    if (pinned_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
  bool pinned_ = false;
};

class Explorer {
 public:
  Explorer(const Scenario& scenario, u32 switches) : scenario_(scenario), most_switches_(switches) {}

  void run_once();
  // The next order in depth-first order; false: that was the last one.
  bool advance();
  std::string order() const { return order_; }

  void step();
  void lock(bool* held);
  void finish(usize self);

 private:
  bool runnable(usize i) const {
    return !runners_[i]->finished && (runners_[i]->waits_for == nullptr || !*runners_[i]->waits_for);
  }
  usize choose();
  void hand_over(usize self);
  void live(usize self);

  const Scenario& scenario_;
  const u32 most_switches_;
  std::vector<Choice> path_;
  usize depth_ = 0;
  u32 switches_ = 0;
  usize current_ = kNobody;
  std::vector<std::unique_ptr<Runner>> runners_;
  Semaphore done_;
  std::string order_;
};

Explorer* g_explorer = nullptr;  // while actors are scheduled
thread_local usize t_self = kNobody;
thread_local bool t_scheduled = false;
pthread_key_t g_end_key;
struct Range {
  uptr from, to;
};
std::vector<Range> g_watched, g_watched_owned;

bool lies_in(const std::vector<Range>& ranges, const void* cell) {
  for (const Range& range : ranges) {
    if (reinterpret_cast<uptr>(cell) - range.from < range.to - range.from) return true;
  }
  return false;
}

bool is_watched(const void* cell) { return cell == nullptr || g_watched.empty() || lies_in(g_watched, cell); }

// Runs after the destructors of keys that were made before ours: the actor's heap is given back by then.
void thread_ends(void* self) {
  Explorer* const explorer = g_explorer;
  t_scheduled = false;
  explorer->finish(reinterpret_cast<usize>(self) - 1);
}

// Who runs next: the current thread first, then the others.
usize Explorer::choose() {
  std::vector<usize> options;
  const bool may_stay = current_ != kNobody && runnable(current_);
  if (may_stay) options.push_back(current_);
  if (!may_stay || switches_ < most_switches_) {
    for (usize i = 0; i < runners_.size(); ++i) {
      if (i != current_ && runnable(i)) options.push_back(i);
    }
  }
  if (options.empty()) return kNobody;
  usize taken = 0;
  if (options.size() > 1) {
    if (depth_ == path_.size()) path_.push_back({0, options.size()});
    // The same choices lead to the same place; if they once do not, nothing worse happens than another order.
    if (path_[depth_].taken >= options.size()) path_[depth_].taken = options.size() - 1;
    path_[depth_].count = options.size();
    taken = path_[depth_++].taken;
  }
  if (may_stay && taken != 0) ++switches_;
  return options[taken];
}

void Explorer::hand_over(usize self) {
  const usize next = choose();
  if (next == self) return;
  if (next == kNobody) {
    bool all_finished = true;
    for (const auto& runner : runners_) all_finished = all_finished && runner->finished;
    if (!all_finished) {
      std::fprintf(stderr, "a deadlock: %s\n", order_.c_str());
      std::abort();
    }
    done_.release();
    return;
  }
  current_ = next;
  order_ += static_cast<char>('a' + next);
  runners_[next]->turn.release();
  if (self != kNobody && !runners_[self]->finished) runners_[self]->turn.acquire();
}

void Explorer::step() { hand_over(t_self); }

void Explorer::lock(bool* held) {
  if (is_watched(held)) step();
  while (*held) {
    runners_[t_self]->waits_for = held;
    hand_over(t_self);
  }
  runners_[t_self]->waits_for = nullptr;
  *held = true;
}

void Explorer::finish(usize self) {
  runners_[self]->finished = true;
  hand_over(self);
}

void Explorer::live(usize self) {
  t_self = self;
  pthread_setspecific(g_end_key, reinterpret_cast<void*>(self + 1));
  if (scenario_.actors[self].prepare) scenario_.actors[self].prepare();
  Runner& runner = *runners_[self];  // looked up now: once this one is ready, the next one is put into the vector
  done_.release();
  runner.turn.acquire();
  t_scheduled = true;
  scenario_.actors[self].run();
}

void Explorer::run_once() {
  depth_ = 0;
  switches_ = 0;
  current_ = kNobody;
  order_.clear();
  runners_.clear();
  if (scenario_.before) scenario_.before();
  for (usize i = 0; i < scenario_.actors.size(); ++i) {
    runners_.push_back(std::make_unique<Runner>());
    runners_[i]->thread = std::thread([this, i] { live(i); });
    done_.acquire();
  }
  hand_over(kNobody);
  done_.acquire();
  for (const auto& runner : runners_) runner->thread.join();
  if (scenario_.after) scenario_.after();
}

bool Explorer::advance() {
  while (!path_.empty() && path_.back().taken + 1 >= path_.back().count) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

}  // namespace

u32 explore(const Scenario& scenario, u32 switches, u32 most) {
  static const bool key_made = pthread_key_create(&g_end_key, &thread_ends) == 0;
  EXPECT_TRUE(key_made);
  const OneProcessor processor;
  Explorer explorer(scenario, switches);
  g_explorer = &explorer;
  u32 tried = 0;
  do {
    // Threads hand over thousands of times, and on a busy machine each waits for its turn there: it hangs if one order
    // takes so long, not if all do.
    alarm(kChildSeconds);
    explorer.run_once();
    ++tried;
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "order " << tried << ", threads by letters: " << explorer.order();
      break;
    }
    if (tried == most) {
      ADD_FAILURE() << "more than " << most << " orders";
      break;
    }
  } while (explorer.advance());
  g_explorer = nullptr;
  return tried;
}

void watch(const void* from, usize bytes) {
  g_watched.push_back({reinterpret_cast<uptr>(from), reinterpret_cast<uptr>(from) + bytes});
}

void watch_owned(const void* from, usize bytes) {
  g_watched_owned.push_back({reinterpret_cast<uptr>(from), reinterpret_cast<uptr>(from) + bytes});
}

}  // namespace coffer::test

namespace coffer::schedule {

namespace {
u64 g_counted;  // plain: one thread runs at a time
}  // namespace

void count() { ++g_counted; }
u64 counted() { return g_counted; }

void step(const void* cell) {
  if (test::t_scheduled && test::is_watched(cell)) test::g_explorer->step();
}

void owned_step(const void* cell) {
  if (test::t_scheduled && test::lies_in(test::g_watched_owned, cell)) test::g_explorer->step();
}

void lock(bool* held) {
  if (test::t_scheduled) return test::g_explorer->lock(held);
  // Outside of a scenario one thread runs at a time.
  COFFER_ASSERT(!*held);
  *held = true;
}

}  // namespace coffer::schedule
