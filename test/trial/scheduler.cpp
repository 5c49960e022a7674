// SPDX-License-Identifier: MIT
#include "trial/scheduler.hpp"

#include <algorithm>

#include "bench/simulation/keys.hpp"
#include "support/check.hpp"

namespace coffer::trial {

Pulse g_pulse;
Scheduler* g_scheduler;

namespace {

constexpr u64 kHang = 60'000'000;    // steps without an end of any call
constexpr u64 kLongest = 1'000'000;  // steps until a turn, at most: it looks for hangs
constexpr u64 kFreezes = 24;         // one in so many turns of a walk stops the thread for long
constexpr u64 kYieldNs = 200'000;
constexpr u64 kYieldsInVain = 64;  // then they wait for somebody who sleeps, or for a slow call
constexpr u64 kMostYields = 20'000;
constexpr u64 kLongestDelay = 5'000;  // of a store whose thread does not run, in steps

std::vector<std::unique_ptr<simulation::Fiber>> g_fibers;
std::vector<simulation::Fiber*> g_idle;

}  // namespace

void turn(u32 place) { g_scheduler->turn(place); }

void Scheduler::make_fibers(u32 count) {
  while (g_fibers.size() < count) {
    g_fibers.push_back(std::make_unique<simulation::Fiber>());
    g_idle.push_back(g_fibers.back().get());
  }
}

Scheduler::Scheduler(const Schedule& schedule, u64 expected_steps)
    : schedule_(schedule), random_(schedule.seed), outside_(simulation::Fiber::own()) {
  g_scheduler = this;
  for (u32& left : g_pulse.left_at) {
    left = schedule_.order == Order::walk ? static_cast<u32>(random_.between(1, 8)) : ~u32{0};
  }
  if (schedule_.order == Order::pct) {
    for (u32 i = 0; i < schedule_.rate; ++i) points_.push_back(random_.between(1, expected_steps));
    std::sort(points_.rbegin(), points_.rend());
  }
}

void Scheduler::run(std::function<void()> first) {
  start(std::move(first));
  current_ = threads_[0].get();
  next_turn();
  g_stores.memory = schedule_.memory;
  set_running(true);
  simulation::Fiber::change(*outside_, *current_->fiber);
  set_running(false);
}

void Scheduler::run_body() {
  Scheduler& world = *g_scheduler;
  Thread& self = *world.current_;
  self.body();
  simulation::run_destructors();
  REQUIRE(self.locks == 0, "thread %u ended and holds %u locks", self.number, self.locks);
  self.stores.send_all();
  self.wait = Wait::ended;
  g_idle.push_back(self.fiber);
  if (self.number == 0) simulation::Fiber::change(*self.fiber, *world.outside_);
  world.leave();
}

Thread* Scheduler::start(std::function<void()> body) {
  if (g_idle.empty()) return nullptr;
  send_own_stores();
  threads_.push_back(std::make_unique<Thread>());
  Thread& thread = *threads_.back();
  thread.number = static_cast<u32>(threads_.size() - 1);
  thread.fiber = g_idle.back();
  g_idle.pop_back();
  thread.priority = random_.next() >> 1 | u64{1} << 62;
  thread.body = std::move(body);
  thread.fiber->prepare(&run_body);
  return &thread;
}

// --- Who goes on. ---

bool Scheduler::ready(const Thread& thread) const {
  switch (thread.wait) {
    case Wait::none:
      return true;
    case Wait::lock:
      return *thread.lock == 0;
    case Wait::kernel:
      return thread.until <= g_pulse.steps;
    case Wait::pause:
      return thread.until <= now();
    default:
      return false;
  }
}

void Scheduler::collect_ready() {
  ready_.clear();
  for (const auto& thread : threads_) {
    if (ready(*thread)) ready_.push_back(thread->number);
  }
}

// Nobody can go on: whose wait ends now?
bool Scheduler::free_somebody() {
  const auto find = [&](Wait wait) {
    const auto at = std::find_if(threads_.begin(), threads_.end(), [&](const auto& one) { return one->wait == wait; });
    return at == threads_.end() ? nullptr : at->get();
  };
  for (const Wait wait : {Wait::kernel, Wait::rest, Wait::slot}) {
    Thread* const thread = find(wait);
    if (thread == nullptr) continue;
    thread->wait = Wait::none;
    thread->given_up = true;
    return true;
  }
  if (wake_sleepers()) return true;
  if (Thread* const thread = find(Wait::join)) {
    thread->wait = Wait::none;
    return true;
  }
  Thread* first = nullptr;
  for (const auto& thread : threads_) {
    if (thread->wait == Wait::pause && (first == nullptr || thread->until < first->until)) first = thread.get();
  }
  if (first == nullptr) return false;
  if (first->until > now()) pass_time(first->until - now());
  return true;
}

u32 Scheduler::pick(bool may_stay) {
  collect_ready();
  while (ready_.empty()) {
    REQUIRE(free_somebody(), "a deadlock: %s", threads_text().c_str());
    collect_ready();
  }
  const u64 number = g_pulse.steps + 1;
  const u32 self = current_->number;
  const u32 plain = may_stay ? self : ready_[0];
  u32 taken = plain;
  switch (schedule_.order) {
    case Order::walk:
      taken = ready_[random_.below(ready_.size())];
      break;
    case Order::pct:
      for (const u32 one : ready_) {
        if (threads_[one]->priority > threads_[taken]->priority) taken = one;
      }
      break;
    case Order::given:
      while (given_ < schedule_.switches.size() && schedule_.switches[given_].step < number) ++given_;
      if (given_ < schedule_.switches.size() && schedule_.switches[given_].step == number) {
        const u32 wanted = schedule_.switches[given_++].to;
        if (wanted < threads_.size() && threads_[wanted]->wait == Wait::kernel) ready_.push_back(wanted);
        if (std::find(ready_.begin(), ready_.end(), wanted) != ready_.end()) taken = wanted;
      }
      break;
  }
  // A choice is a step, so that each has a number of its own; that nothing changes at a turn is none.
  if (taken != plain || !may_stay) g_pulse.steps = number;
  if (taken != plain || !may_stay) choices_.push_back({number, taken});
  return taken;
}

void Scheduler::go_to(u32 number) {
  Thread& from = *current_;
  Thread& to = *threads_[number];
  to.wait = Wait::none;
  next_turn();
  if (&from == &to) return;
  from.own += g_pulse.steps - from.resumed;
  to.resumed = g_pulse.steps;
  g_pulse.hash = (g_pulse.hash ^ number) * 0x9e3779b97f4a7c15u;
  current_ = &to;
  leave_stores(from);
  simulation::Fiber::change(*from.fiber, *to.fiber);
}

// What a call goes on with in the child of a handler that interrupted it, others may not have left half changed
// (docs/design/fork.md, known gaps).
bool Scheduler::is_alone_in_calls() const {
  return std::none_of(threads_.begin(), threads_.end(), [&](const auto& one) {
    const bool works = one->is_reclaimer ? one->wait != Wait::pause : one->in_call;
    return one.get() != current_ && one->wait != Wait::ended && works;
  });
}

// How far the one that goes on may go.
void Scheduler::next_turn() {
  u64 left = kLongest;
  if (schedule_.order == Order::walk) left = random_.between(1, u64{2} * schedule_.rate);
  if (schedule_.order == Order::pct && !points_.empty()) {
    left = points_.back() > g_pulse.steps ? points_.back() - g_pulse.steps : 1;
  }
  left = std::min(left, kLongest);
  due_ = g_pulse.steps + left;
  g_pulse.left =
      schedule_.order == Order::given || (current_->sleep_at | current_->fork_at | current_->show_at) != 0 ? 1 : left;
}

void Scheduler::turn(u32 place) {
  const bool is_due = g_pulse.left_at[place] == 0 || g_pulse.steps >= due_;
  if (g_pulse.left_at[place] == 0) {
    // The more often a place was passed, the seldomer it is one to stop at.
    const u32 hits = hits_[place] < 16 ? hits_[place]++ : 16;
    g_pulse.left_at[place] = static_cast<u32>(random_.between(1, u64{16} << hits));
  }
  REQUIRE(g_pulse.steps - progress_ < kHang, "no call ended for %llu steps",
          static_cast<unsigned long long>(g_pulse.steps - progress_));
  Thread& self = *current_;
  if (self.sleep_at != 0 && own_steps() >= self.sleep_at && self.locks == 0) {
    self.sleep_at = 0;
    return wait(Wait::sleep);
  }
  if (self.no_signals == 0 && self.fork_at != 0 && own_steps() >= self.fork_at && is_alone_in_calls()) {
    self.fork_at = 0;
    fork_wherever_it_is();
  }
  if (self.no_signals == 0 && self.show_at != 0 && own_steps() >= self.show_at) {
    self.show_at = 0;
    show(self.shown);
  }
  if (schedule_.order == Order::walk && !is_due) {
    g_pulse.left = 1;
    return;
  }
  if (schedule_.order == Order::pct) {
    if (points_.empty() || points_.back() > g_pulse.steps) return next_turn();
    points_.pop_back();
    self.priority = --lowest_;
  }
  if (schedule_.order == Order::given) {
    const auto& list = schedule_.switches;
    while (given_ < list.size() && list[given_].step <= g_pulse.steps) ++given_;
    if (given_ == list.size() || list[given_].step != g_pulse.steps + 1) return next_turn();
  }
  if (schedule_.order == Order::walk && random_.one_in(kFreezes)) {
    collect_ready();
    if (ready_.size() > 1) {
      self.wait = Wait::kernel;
      self.until = g_pulse.steps + random_.by_magnitude(100, 20'000);
    }
  }
  go_to(pick(true));
}

void Scheduler::wait(Wait wait, u64 until) {
  current_->wait = wait;
  current_->until = until;
  current_->given_up = false;
  leave();
}

void Scheduler::yield() {
  if (!g_pulse.on) return;
  pass_time(kYieldNs);
  send_stores();  // in so much time
  if (progress_ != yields_at_) yields_ = 0;
  yields_at_ = progress_;
  most_yields_ = std::max(most_yields_, ++yields_);
  const bool long_in_vain = yields_ % kYieldsInVain == 0;
  if (long_in_vain && sleepers_wake_) wake_sleepers();
  REQUIRE(yields_ < kMostYields, "a loop waits for what does not come: %s", threads_text().c_str());
  Thread& self = *current_;
  if (schedule_.order == Order::pct) self.priority = --lowest_;
  collect_ready();
  if (ready_.size() == 1 || long_in_vain) wake(Wait::kernel);
  // The others first.
  self.wait = Wait::kernel;
  self.until = g_pulse.steps + 2;
  leave();
}

void Scheduler::put_others_to_sleep() {
  for (const auto& thread : threads_) {
    thread->sleep_at = thread.get() != current_ ? 1 : 0;
  }
  sleepers_wake_ = false;
}

bool Scheduler::wake_sleepers() {
  bool any = false;
  for (const auto& thread : threads_) {
    if (thread->wait != Wait::sleep) continue;
    REQUIRE(sleepers_wake_, "who ends the process waits for a thread that was stopped: %s", threads_text().c_str());
    thread->wait = Wait::none;
    any = true;
  }
  return any;
}

void Scheduler::wake(Wait wait) {
  for (const auto& thread : threads_) {
    if (thread->wait == wait) thread->wait = Wait::none;
  }
}

std::string Scheduler::threads_text() const {
  static constexpr const char* kNames[] = {"runs", "lock", "kernel", "slot",  "boundary",
                                           "rest", "join", "pause",  "sleep", "ended"};
  std::string text;
  for (const auto& thread : threads_) {
    if (!text.empty()) text += ", ";
    text += std::to_string(thread->number) + (thread.get() == current_ ? " is here" : "");
    text += std::string(" ") + kNames[static_cast<u32>(thread->wait)];
    if (thread->locks != 0) text += " has " + std::to_string(thread->locks) + " locks";
  }
  return text;
}

// --- Stores that wait. ---

void Scheduler::set_running(bool runs) {
  send_stores();
  g_pulse.on = runs;
  g_stores.own = runs && schedule_.memory != Memory::at_once ? &current_->stores : nullptr;
}

// Another thread runs now. What goes to memory follows from the steps so far, so that a run by a list of switches has
// the same.
void Scheduler::leave_stores(Thread& from) {
  if (schedule_.memory == Memory::at_once) return;
  if (g_pulse.on) g_stores.own = &current_->stores;
  if (!from.stores.empty()) delaying_.push_back(&from);
  u64 choice = g_pulse.hash;
  std::erase_if(delaying_, [&](Thread* thread) {
    choice = (choice ^ thread->number) * 0xd6e8feb86659fd93u;
    const u64 what = choice >> 62;
    if (what == 0) thread->stores.send_all();
    if (what == 1) thread->stores.send_some(schedule_.memory, choice >> 32);
    return thread == current_ || thread->stores.empty();
  });
  send_old_stores();
}

void Scheduler::send_old_stores() {
  std::erase_if(delaying_, [&](Thread* thread) {
    const bool old = !thread->stores.empty() && g_pulse.steps - thread->stores.since() > kLongestDelay;
    if (old) thread->stores.send_all();
    return thread->stores.empty();
  });
}

void Scheduler::send_stores() {
  for (Thread* const thread : delaying_) thread->stores.send_all();
  delaying_.clear();
  if (current_ != nullptr) current_->stores.send_all();
}

// --- Locks. ---

void Scheduler::lock(u32* holder) {
  if (!g_pulse.on) {
    REQUIRE(*holder == 0, "a lock is held at rest, by thread %u", *holder - 1);
  } else {
    step(static_cast<u32>(__LINE__), 0);
    Thread& self = *current_;
    REQUIRE(*holder != self.number + 1, "thread %u locks what it has locked", self.number);
    while (*holder != 0) {
      self.lock = holder;
      wait(Wait::lock);
    }
  }
  *holder = current_->number + 1;
  ++current_->locks;
}

bool Scheduler::try_lock(u32* holder) {
  if (g_pulse.on) step(static_cast<u32>(__LINE__), 0);
  if (*holder != 0) return false;
  *holder = current_->number + 1;
  ++current_->locks;
  return true;
}

void Scheduler::unlock(u32* holder) {
  REQUIRE(*holder == current_->number + 1, "thread %u unlocks what it did not lock", current_->number);
  send_own_stores();
  *holder = 0;
  --current_->locks;
  if (g_pulse.on) step(static_cast<u32>(__LINE__), 0);
}

void lock(u32* holder) { g_scheduler->lock(holder); }
bool try_lock(u32* holder) { return g_scheduler->try_lock(holder); }
void unlock(u32* holder) { g_scheduler->unlock(holder); }
bool holds(const u32* holder) { return *holder == g_scheduler->current().number + 1; }
bool forget_others(u32* holder) {
  if (*holder == 0 || holds(holder)) return false;
  *holder = 0;
  return true;
}

void Scheduler::become_only_thread() {
  for (const auto& thread : threads_) {
    if (thread.get() == current_ || thread->wait == Wait::ended) continue;
    thread->wait = Wait::ended;
    g_idle.push_back(thread->fiber);
  }
  delaying_.clear();
  first_ = current_->number;
  rest_wanted_ = false;
  sleepers_wake_ = true;
}

// --- Rest. ---

void Scheduler::boundary() {
  note_progress();
  send_old_stores();
  if (rest_wanted_) wait(Wait::boundary);
}

bool Scheduler::begin_rest() {
  boundary();
  rest_wanted_ = true;
  wait(Wait::rest);
  set_running(false);
  for (const auto& thread : threads_) {
    if (thread->wait == Wait::sleep || thread->wait == Wait::lock) return false;
  }
  return true;
}

void Scheduler::end_rest() {
  rest_wanted_ = false;
  wake(Wait::boundary);
  set_running(true);
}

}  // namespace coffer::trial

namespace simulation {
std::map<u32, void*>* current_specific() {
  return coffer::trial::g_scheduler != nullptr ? &coffer::trial::g_scheduler->current().specific : nullptr;
}
}  // namespace simulation
