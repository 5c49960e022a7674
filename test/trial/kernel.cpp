// SPDX-License-Identifier: MIT
#include "trial/kernel.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "bench/simulation/ground.hpp"
#include "exchange/registry_record.hpp"
#include "os/fake/fake.hpp"
#include "support/check.hpp"
#include "trial/scheduler.hpp"

namespace coffer::trial {

namespace {

Kernel g_kernel;
u64 g_calls, g_failed, g_last_failure, g_asked;
bool g_refuses;
u32 g_refused;  // kinds of which the last call failed

constexpr u32 kForMemory = os::fake::kReserve | os::fake::kCommit;

void note_refusal(u32 kind) {
  g_refused |= kind;
  ++g_failed;
  g_last_failure = g_pulse.steps;
}

bool fails(os::fake::Kind kind) {
  // At rest the allocator is looked at: what it asks for then is not part of the program.
  if (!g_pulse.on) return g_refuses && (kind & kForMemory) != 0;
  const u64 number = ++g_calls;
  step(static_cast<u32>(kind), 1);
  bool fails = false;
  for (const Fault& fault : g_kernel.faults) {
    if ((fault.kinds & kind) == 0) continue;
    if (fault.effect == Effect::slow && fault.call == number) {
      g_scheduler->wait(Wait::kernel, g_pulse.steps + fault.count);
    }
    fails |= fault.effect == Effect::fail && number - fault.call < fault.count;
  }
  g_refused &= ~u32{kind};
  if (!fails) {
    g_scheduler->send_stores();  // a barrier, or a change of mappings, which other processors are told of
    return false;
  }
  note_refusal(kind);
  return true;
}

void returns() {
  if (g_pulse.on) g_scheduler->send_stores();  // as in fails
  step(static_cast<u32>(__LINE__), 1);
}

void* place(usize length, usize alignment) {
  void* const got = simulation::take_ground(length, alignment);
  if (got == nullptr) note_refusal(os::fake::kReserve);  // ground that was left is not had again
  return got;
}

u64 clock() { return g_scheduler != nullptr ? g_scheduler->now() : 1; }

u32 processor() {
  u32 number = g_scheduler->current().number % g_kernel.processors;
  if (g_kernel.roams) number = static_cast<u32>((++g_asked * 0x9e3779b97f4a7c15u >> 40) % g_kernel.processors);
  return g_kernel.sparse ? number * 37 + 5 : number;
}

u64 random_seed() { return g_kernel.seed * 0x9e3779b97f4a7c15u + 1; }

void yield() { g_scheduler->yield(); }

void pause(u64 nanoseconds) {
  if (g_pulse.on) g_scheduler->wait(Wait::pause, g_scheduler->now() + nanoseconds);
}

bool start(void (*body)()) {
  if (!g_pulse.on) return false;
  Thread* const thread = g_scheduler->start(body);
  if (thread != nullptr) thread->is_reclaimer = true;
  return thread != nullptr;
}

// In the order in which they were registered, as pthread_atfork has them: Coffer's own, and those of heaps by handle.
struct Handlers {
  void (*prepare)();
  void (*in_parent)();
  void (*in_child)();
};
constexpr u32 kMostHandlers = 4;
Handlers g_handlers[kMostHandlers];
u32 g_handlers_made;

bool on_fork(void (*prepare)(), void (*in_parent)(), void (*in_child)()) {
  REQUIRE(g_handlers_made < kMostHandlers, "handlers of fork are registered again and again");
  g_handlers[g_handlers_made++] = {prepare, in_parent, in_child};
  return true;
}

void block_signals(bool blocked) { g_scheduler->current().no_signals += blocked ? 1 : -1; }

bool is_first_thread() { return g_scheduler->current().number == g_scheduler->first(); }

constexpr os::fake::World kWorld = {&fails, &returns, &place, &clock,   &processor,       &random_seed,
                                    &yield, &pause,   &start, &on_fork, &is_first_thread, &block_signals};

}  // namespace

void start_kernel(const Kernel& kernel) {
  g_kernel = kernel;
  os::fake::set_world(&kWorld);
  os::fake::set_processors(kernel.processors);
  os::fake::set_barrier(kernel.barrier);
  os::fake::set_memory_limit(kernel.memory_limit != 0 ? kernel.memory_limit : os::kNoMemoryLimit);
  os::fake::Faults faults;
  faults.damage = kernel.torn ? os::fake::Damage::torn : os::fake::Damage::none;
  os::fake::set_faults(faults);
}

void set_group_limit(u64 bytes) { os::fake::set_memory_limit(bytes != 0 ? bytes : os::kNoMemoryLimit); }
void set_cores(u32 count, bool sparse) {
  g_kernel.processors = count;
  g_kernel.sparse = sparse;
}

namespace {

bool another_starts() {
  const uptr start = g_registry.start.load(relaxed);  // relaxed: a thread's name, of which nothing is read
  return start != kNotStarted && start != kStarted && start != this_thread();
}

}  // namespace

long fork_process() {
  // The child of a process that has handlers already, or not yet. Without the page that forks wipe, it misses what has
  // come since the handlers began, as who starts the process (fork.md, known gaps): then they begin anew.
  u32 made = 0;
  const auto run = [&](void (*Handlers::*which)()) {
    for (u32 i = 0; i < made; ++i) (g_handlers[i].*which)();
  };
  for (;;) {
    made = g_handlers_made;
    for (u32 i = made; i-- > 0;) g_handlers[i].prepare();
    // The look at the start first: others may go on before it, and not between what follows and the fork.
    if (os::fake::offers_wiped_pages() || (!another_starts() && made == g_handlers_made)) break;
    run(&Handlers::in_parent);
    g_scheduler->yield();
  }
  g_scheduler->send_stores();            // the kernel interrupts all processors
  const long child = syscall(SYS_fork);  // not the C library's, which knows nothing of these threads
  if (child == 0) g_scheduler->become_only_thread();
  run(child == 0 ? &Handlers::in_child : &Handlers::in_parent);
  return child;
}

long copy_process() { return syscall(SYS_fork); }

void refuse_memory(bool refuses) { g_refuses = refuses; }
u64 kernel_calls() { return g_calls; }
u64 failed_calls() { return g_failed; }
u64 last_failure() { return g_last_failure; }
bool memory_is_refused() { return (g_refused & kForMemory) != 0; }

}  // namespace coffer::trial
