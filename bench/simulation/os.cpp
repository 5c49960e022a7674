// SPDX-License-Identifier: MIT
// The operating system of the simulated machine: os/linux, built with a namespace of its own, does what has to be done
// to real memory; what it takes, how many processors there are and what the clock says is the machine's to say.
#define COFFER_OS_DECLARED os_linux
#include "os/os.hpp"

#include "machine.hpp"

namespace coffer::os {

namespace {

using simulation::g_machine;

bool runs() { return g_machine != nullptr && g_machine->running(); }

// Before the call is made: others may have their turn first.
void call(const char* name, u64 cycles, bool alone = true, bool interrupts = false) {
  if (runs()) g_machine->system_call(name, cycles, alone, interrupts);
}

void forget(void* address, usize length) {
  if (runs()) g_machine->forget(reinterpret_cast<uptr>(address), length);
}

simulation::Costs costs() { return runs() ? g_machine->costs() : simulation::Costs{}; }

constexpr usize kMostReserved = usize{1} << 38;  // what Coffer may reserve: its tables stay small

}  // namespace

usize page_size() { return os_linux::page_size(); }
u32 processors() { return g_machine == nullptr ? 1 : g_machine->shape().cores; }
u32 current_processor() { return runs() ? g_machine->current().core : 0; }

usize reservation_limit(usize wanted) { return wanted < kMostReserved ? wanted : kMostReserved; }
bool limit_allows(usize, usize) { return true; }
usize cgroup_memory_limit(const char*) { return kNoMemoryLimit; }

void* reserve(usize length, usize alignment) {
  call("reserve", costs().map);
  return simulation::take_ground(length, alignment);
}
void release(void* address, usize length) {
  call("release", costs().map, true, true);
  os_linux::release(address, length);
  forget(address, length);
}
bool commit(void* address, usize length) {
  call("commit", costs().map);
  return os_linux::commit(address, length);
}
bool decommit(void* address, usize length) {
  call("decommit", costs().map, true, true);
  forget(address, length);
  return os_linux::decommit(address, length);
}
void* map(usize length, usize alignment) {
  void* const got = reserve(length, alignment);
  return got != nullptr && os_linux::commit(got, length) ? got : nullptr;
}
// At a place of its own, so that addresses stay the same in each run.
void* grow(void* address, usize length, usize wanted) {
  void* const got = map(wanted, page_size());
  if (got == nullptr) return nullptr;
  __builtin_memcpy(got, address, length);
  release(address, length);
  return got;
}
bool locks_memory() { return false; }
void forget_locking() {}
void keep_locked(void*, usize) {}
bool resident_pages(const void*, usize, u8*) { return false; }
bool purge(void* address, usize length) {
  call("purge", costs().purge + length / simulation::kPageBytes * costs().purge_page, false, true);
  forget(address, length);
  return os_linux::purge(address, length);
}
bool move_pages(void* from, void* to, usize length) {
  call("move_pages", costs().map, true, true);
  forget(from, length);
  return os_linux::move_pages(from, to, length);
}
bool remap(void* address, usize length) {
  call("remap", costs().map, true, true);
  forget(address, length);
  return os_linux::remap(address, length);
}
void advise_huge_pages(void*, usize, HugePages) { call("advise", 0); }
void name_mapping(void*, usize, const char*) { call("name", 0); }
void write_error(const char* text, usize length) { os_linux::write_error(text, length); }

u64 random_seed() { return 0x5eed; }
usize page_table_bytes() { return os_linux::page_table_bytes(); }

// Cycles at 2.13 GHz, as costs.hpp has them.
u64 monotonic_ns() { return runs() ? g_machine->now() * 100 / 213 : 0; }
u64 coarse_ns() { return monotonic_ns() / 4'000'000 * 4'000'000; }

bool on_fork(void (*)(), void (*)(), void (*)()) { return true; }
bool on_fork_while_forking() { return true; }
void* map_wiped_in_children(usize) { return nullptr; }
bool block_signals(u64*) { return false; }
void restore_signals(u64) {}
bool is_first_thread() { return true; }

void prepare_barrier() {}
bool has_barrier() { return true; }
// One thread runs at a time, and what it wrote is there.
bool barrier_everywhere() {
  call("membarrier", costs().barrier, false, true);
  return true;
}

void yield() {
  if (runs()) g_machine->spin(costs().system_call);
}
void pause_ns(u64 nanoseconds) {
  if (runs()) g_machine->spend(nanoseconds * 213 / 100);
}

void note_process() {}
Support support() { return os_linux::support(); }
void note_filter() {}
bool filter_came() { return false; }
bool is_noted_process() { return true; }
// No thread but the program's: what the reclaimer would do later is left out.
bool start_transient(void (*)()) { return false; }
bool transient_reaches(const volatile void*) { return true; }
bool has_process_rights() { return true; }
bool elevated() { return false; }
u64 call_count() { return os_linux::call_count(); }

}  // namespace coffer::os
