// SPDX-License-Identifier: MIT
// The threads of a world: fibers, of which one runs at a time, and a clock that their steps move on. Who goes on at
// each turn follows from the seed alone; choices other than the plain one are written down, so that a run can be
// repeated by them, and shrunk.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/simulation/fiber.hpp"
#include "support/random.hpp"
#include "trial/pulse.hpp"
#include "trial/shown.hpp"
#include "trial/stores.hpp"

namespace coffer::trial {

// walk: another thread at random, after so many steps as `rate` says, and at each place of the sources for its own
// sake. pct: threads have priorities, and at `rate` points of the run the one that runs gets the lowest. given: as the
// list of switches says.
enum class Order : u8 { walk, pct, given };
struct Switch {
  u64 step;
  u32 to;
};
struct Schedule {
  Order order = Order::walk;
  u64 seed = 1;
  u32 rate = 100;
  Memory memory = Memory::at_once;
  std::vector<Switch> switches;
};

// What a thread waits for; all but these do so at rest, outside of every call: none, lock, kernel, sleep.
enum class Wait : u8 { none, lock, kernel, slot, boundary, rest, join, pause, sleep, ended };

struct Thread {
  u32 number = 0;
  Wait wait = Wait::none;
  simulation::Fiber* fiber = nullptr;
  const u32* lock = nullptr;  // waits for it
  u64 until = 0;              // waits for it: a step (kernel) or a time (pause)
  bool given_up = false;      // what it waited for does not come
  bool is_reclaimer = false;
  bool in_call = false;
  u32 part = 0;        // of the program, which it does
  u32 locks = 0;       // held
  u64 own = 0;         // steps, but those since `resumed`
  u64 resumed = 0;     // the world's step when it went on last
  u64 sleep_at = 0;    // of its own steps; 0: it does not
  u64 fork_at = 0;     // the same: a signal comes, whose handler forks
  int no_signals = 0;  // so many times they are blocked
  u64 show_at = 0;     // the same: one whose handler shows what is wanted
  Shown shown = Shown::figures;
  u64 priority = 0;
  std::function<void()> body;
  std::map<simulation::u32, void*> specific;  // pthread_setspecific
  StoreBuffer stores;
};

class Scheduler {
 public:
  // In the process that forks worlds: fibers for all their threads.
  static void make_fibers(u32 count);

  Scheduler(const Schedule& schedule, u64 expected_steps);

  // Until the first thread ends.
  void run(std::function<void()> first);

  // --- For the threads of the world. ---
  Thread& current() { return *current_; }
  u64 own_steps() const { return current_->own + g_pulse.steps - current_->resumed; }
  // nullptr: there is no fiber for it.
  Thread* start(std::function<void()> body);
  void wait(Wait wait, u64 until = 0);
  // What a loop that waits for others does.
  void yield();
  void turn(u32 place);
  void lock(u32* holder);
  bool try_lock(u32* holder);
  void unlock(u32* holder);

  // Has all other threads rest outside of calls; false: some sleep in the middle of one. What comes until end_rest runs
  // alone.
  bool begin_rest();
  void end_rest();
  // Between two operations.
  void boundary();
  // What all threads have stored is seen by all, or what this thread has: it hands something over, as others see it.
  void send_stores();
  void send_stores_of(u32 number) { threads_[number]->stores.send_all(); }
  // In the child of a fork: the others are not here.
  void become_only_thread();
  u32 first() const { return first_; }  // the process's first thread

  u64 now() const { return 1'000'000'000 + g_pulse.steps * kStepNs + passed_; }
  void pass_time(u64 nanoseconds) { passed_ += nanoseconds; }
  // All other threads sleep for ever from now on, where they have no lock: a wait for one of them has to end by itself.
  void put_others_to_sleep();
  // Those that sleep for ever go on after all.
  bool wake_sleepers();
  void wake(Wait wait);

  const std::vector<Switch>& choices() const { return choices_; }
  u32 threads_ever() const { return static_cast<u32>(threads_.size()); }
  u64 longest_yields() const { return most_yields_; }
  // A call began or ended, or whatever else shows that the world goes on.
  void note_progress() { progress_ = g_pulse.steps; }

 private:
  static constexpr u64 kStepNs = 20;
  static void run_body();
  bool ready(const Thread& thread) const;
  bool is_alone_in_calls() const;
  void collect_ready();
  bool free_somebody();
  u32 pick(bool may_stay);
  void go_to(u32 number);
  void leave() { go_to(pick(false)); }
  void next_turn();
  void set_running(bool runs);
  void leave_stores(Thread& from);
  void send_old_stores();
  std::string threads_text() const;

  Schedule schedule_;
  test::Random random_;
  std::unique_ptr<simulation::Fiber> outside_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<u32> ready_;
  std::vector<Thread*> delaying_;  // threads that do not run and whose stores wait
  std::vector<u64> points_;        // pct: steps at which a priority falls; the next one last
  u64 lowest_ = u64{1} << 62;      // all priorities that threads begin with are above
  u32 hits_[kPlaces] = {};
  Thread* current_ = nullptr;
  usize given_ = 0;  // switches of the list that were made
  std::vector<Switch> choices_;
  u64 due_ = 0;  // the step of the next turn by its time
  u64 passed_ = 0;
  u64 progress_ = 0;
  u64 yields_ = 0, most_yields_ = 0;  // in a row, while no call ended
  u64 yields_at_ = 0;
  bool rest_wanted_ = false;
  bool sleepers_wake_ = true;
  u32 first_ = 0;
};

// The one of this process.
extern Scheduler* g_scheduler;
// What the handler of a signal does, in the thread that was interrupted: the world's.
void fork_wherever_it_is();

}  // namespace coffer::trial
