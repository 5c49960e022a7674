// SPDX-License-Identifier: MIT
#include "papers/common/process.hpp"

#include <pthread.h>

#include "config/config.hpp"
#include "os/os.hpp"

namespace coffer {

__thread char t_lock_identity;

namespace papers {

__thread void* t_local;
Atomic<u32> g_started;
Atomic<uptr> g_forking;

namespace {

__thread bool t_ended;
__thread u32 t_number;

struct Process {
  const Hooks* hooks = nullptr;
  Atomic<u32> handlers;   // 1: a thread has registered the fork handlers, or is at it
  Atomic<uptr> starting;  // identity of the thread that starts the process; 0: none
  Atomic<u32> threads;    // numbers given out
  pthread_key_t key = 0;
  bool has_key = false;
  u32 forks = 0;                  // with the paper's locks: a signal handler may fork inside a fork
  bool fork_holds_start = false;  // `starting` is the thread that forks: nobody starts the process meanwhile
};

Process g_process;

uptr this_thread() { return reinterpret_cast<uptr>(&t_lock_identity); }

void end_thread(void* local) {
  if (t_local != local) return;
  g_process.hooks->thread_ended(local);
  t_local = nullptr;
  t_ended = true;
}

void lock_paper() {
  g_process.hooks->fork_prepare();
  ++g_process.forks;
  g_forking.store(this_thread(), relaxed);  // relaxed: see is_forking
}

// Either the paper's locks are taken, or nobody can start the process until the fork is done.
void prepare() {
  uptr seen = 0;
  // acquire, all: pair with the releases in start_process_slow.
  while (g_started.load(acquire) == 0) {
    seen = 0;
    if (g_process.starting.compare_exchange(seen, this_thread(), acquire, relaxed)) {
      if (g_started.load(relaxed) != 0) {      // relaxed: acquired with `starting`
        g_process.starting.store(0, release);  // release: pairs with the next taker's acquire
        break;
      }
      g_process.fork_holds_start = true;
      return;
    }
    if (seen == this_thread()) return;  // a signal handler forks inside the start, which goes on in both processes
    os::yield();
  }
  lock_paper();
}

// What parent and child do alike; true if the paper's locks are held.
bool end_fork() {
  if (g_process.fork_holds_start) {
    g_process.fork_holds_start = false;
    g_process.starting.store(0, release);  // release: pairs with the acquire of whoever starts next
  }
  if (!is_forking()) return false;
  // The fork that the innermost one interrupted goes on between its handlers.
  if (--g_process.forks == 0) g_forking.store(0, relaxed);  // relaxed: see is_forking
  return true;
}

void parent() {
  if (end_fork()) g_process.hooks->fork_parent();
}

void child() {
  os::note_process();
  os::forget_locking();
  if (end_fork()) g_process.hooks->fork_child();
}

}  // namespace

// At the first allocation, before the start: the C library may allocate here, and then that allocation makes the
// start, and passes this function over. Handlers registered before these run while these hold the locks; SpinLock lets
// the thread that forks in again.
void handle_forks() {
  u32 seen = 0;
  if (!g_process.handlers.compare_exchange(seen, 1, relaxed, relaxed)) return;  // relaxed: nothing else is published
  if (os::on_fork(&prepare, &parent, &child)) return;
  constexpr char kFailed[] = "coffer: fork handlers could not be registered; do not fork while threads allocate\n";
  os::write_error(kFailed, sizeof kFailed - 1);
}

void set_local(void* local) {
  // In place first: pthread_setspecific may allocate. If it fails, thread_ended is not called for this thread.
  t_local = local;
  if (g_process.has_key) pthread_setspecific(g_process.key, local);
}

bool thread_has_ended() { return t_ended; }

u32 thread_number() {
  if (COFFER_UNLIKELY(t_number == 0)) t_number = g_process.threads.fetch_add(1, relaxed) + 1;  // relaxed: a number
  return t_number;
}

bool start_process_slow(const Hooks& hooks) {
  handle_forks();
  bool in_fork = false;
  for (;;) {
    // acquire: pairs with the release below.
    if (g_started.load(acquire) != 0) return true;
    uptr seen = 0;
    // acquire: pairs with the releases of `starting`.
    if (g_process.starting.compare_exchange(seen, this_thread(), acquire, relaxed)) break;
    if (seen == this_thread()) {
      // Another library's fork handler makes the first allocation; or a signal handler allocates inside the start.
      in_fork = g_process.fork_holds_start;
      if (!in_fork) return false;
      break;
    }
    os::yield();
  }
  bool ready = g_started.load(relaxed) != 0;  // relaxed: acquired with `starting`
  if (!ready) {
    config::load();
    g_process.hooks = &hooks;
    if (!g_process.has_key) g_process.has_key = pthread_key_create(&g_process.key, &end_thread) == 0;
    os::note_process();
    ready = hooks.start();
    // Before others can be inside: the child must not inherit what they hold.
    if (ready && in_fork) lock_paper();
    if (ready) g_started.store(1, release);  // release: pairs with the acquire in start_process
  }
  if (!in_fork) g_process.starting.store(0, release);  // release: pairs with the acquire above
  return ready;
}

}  // namespace papers
}  // namespace coffer
