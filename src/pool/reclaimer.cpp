// SPDX-License-Identifier: MIT
#include "pool/reclaimer.hpp"

#include "base/atomic.hpp"
#include "config/config.hpp"
#include "os/os.hpp"
#include "os/spin_lock.hpp"

namespace coffer {

namespace {

enum class State : u32 { none = 0, running = 1, wanted = 2 };

Atomic<State> g_state;
Atomic<u64> g_retry;     // no thread could be had before; not until then
Atomic<u32> g_by_calls;  // ticks for which calls do the chores, for want of a thread
u32 g_turn;              // which chore is next for them; plain: one at a time is at work

// Plain: written at the start of the process, before anybody asks.
void (*g_enter)();
const Chore* g_chores;
u32 g_chore_count;
bool (*g_attend)();

// At most one works: the reclaimer at its chores, or whoever keeps it from them.
SpinLock g_working;

// Returns whether one of them has something to wait for.
bool do_chores() {
  bool waits = false;
  for (u32 i = 0; i < g_chore_count; ++i) waits = g_chores[i].whole() || waits;
  return waits;
}

void run() {
  // Before everything else: of a watched fork child nothing is touched if it becomes another program meanwhile.
  os::pause_ns(kTickNs);
  g_enter();
  constexpr u32 kResting = kIdleTicks + 1;
  u32 idle = kResting;
  for (bool asked = true;; asked = false) {
    // acq_rel: with the CASes in want_reclaimer: what was freed before the request is seen by the chores.
    asked = g_state.exchange(State::running, acq_rel) == State::wanted || asked;
    if (asked) idle = 0;
    g_working.lock();
    if (idle < kResting) idle = do_chores() ? 0 : idle + 1;
    const bool attends = g_attend != nullptr && g_attend();
    g_working.unlock();
    State seen = State::running;
    // release: pairs with the acquire of the next one who starts. A failure without reason is one more round.
    if (idle == kResting && !attends && g_state.compare_exchange(seen, State::none, release, relaxed)) return;
    os::pause_ns(kTickNs);
  }
}

// false: none can be had now.
bool start_reclaimer() {
  const u64 now = os::coarse_ns();
  // relaxed, here and below: a time that may be late.
  if (g_enter == nullptr || !config::options().reclaimer || now < g_retry.load(relaxed)) return false;
  if (os::filter_came()) {
    g_retry.store(~u64{0}, relaxed);  // never again
    return false;
  }
  // Not before: who came under a filter may make no other call. A process that shares this one's memory leaves it
  // alone.
  if (!os::is_noted_process()) return true;
  State none = State::none;
  // acquire: pairs with the release of the one before. Who fails here was overtaken by another who starts it.
  if (!g_state.compare_exchange(none, State::running, acquire, relaxed)) return true;
  if (os::start_transient(&run)) return true;
  g_retry.store(now + kRetryNs, relaxed);
  g_state.store(State::none, release);  // release: as the reclaimer's own end
  return false;
}

}  // namespace

void set_chores(void (*enter)(), const Chore* chores, u32 count, bool (*attend)()) {
  g_enter = enter;
  g_chores = chores;
  g_chore_count = count;
  g_attend = attend;
}

void want_reclaimer() {
  State seen = g_state.load(relaxed);  // relaxed: the CASes decide
  while (seen == State::running) {
    // release: pairs with the exchange in run.
    if (g_state.compare_exchange(seen, State::wanted, release, relaxed)) return;
  }
  if (seen == State::wanted || g_chore_count == 0 || start_reclaimer()) return;
  // relaxed, both: how long it goes on. Who was overtaken by another who started one changes nothing by it.
  if (g_by_calls.load(relaxed) != kIdleTicks) g_by_calls.store(kIdleTicks, relaxed);
}

bool calls_sweep() { return g_by_calls.load(relaxed) != 0; }  // relaxed: as above

bool sweep_step() {
  if (!calls_sweep()) return true;
  if (!g_working.try_lock()) return false;  // in a step of its own, or another is
  bool through = true;
  for (; g_turn < g_chore_count; ++g_turn) {
    if (g_chores[g_turn].step != nullptr && !g_chores[g_turn].step()) {
      through = false;
      break;
    }
  }
  if (through) {
    g_turn = 0;
    g_by_calls.store(g_by_calls.load(relaxed) - 1, relaxed);  // relaxed: as above
  }
  g_working.unlock();
  return through;
}

// relaxed: at its end it finds nothing more to wait for; who comes later than that asks for a new one.
bool reclaimer_lives() { return g_state.load(relaxed) != State::none; }

ReclaimerRests::ReclaimerRests() : outer_(!g_working.is_mine()) {
  if (outer_) g_working.lock();
}
ReclaimerRests::~ReclaimerRests() {
  if (outer_) g_working.unlock();
}

void let_walks_in() {
  if (!g_working.is_mine()) return;  // a call, not the reclaimer
  g_working.unlock();
  os::yield();
  g_working.lock();
}

bool forget_reclaimer() {
  // relaxed: the child has one thread.
  const bool was = g_state.load(relaxed) != State::none;
  g_state.store(State::none, relaxed);
  g_working.forget_others();
  g_by_calls.store(0, relaxed);
  return was;
}

}  // namespace coffer
