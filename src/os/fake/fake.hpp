// SPDX-License-Identifier: MIT
// An operating system that refuses on demand, for tests. It stands before os/linux: every call that is not refused goes
// there. For it the linux files are compiled with COFFER_OS_NAMESPACE=os_linux (see os/linux/namespace.hpp), and the
// allocator above needs no change.
//
// Everything here is of the whole process and may be changed at any time, by any thread.
#pragma once

#include "os/os.hpp"

namespace coffer::os::fake {

// The calls that can fail, as bits of a mask.
enum Kind : u32 {
  kReserve = 1,
  kCommit = 2,
  kPurge = 4,
  kMovePages = 8,
  kRemap = 16,
  kBarrier = 32,  // barrier_everywhere
  kThread = 64,   // start_transient
  kFile = 128,    // files that are made or written
};
inline constexpr u32 kKinds = 8;
inline constexpr u32 kAllKinds = (1u << kKinds) - 1;

// "reserve", "commit" ...; kind is one bit.
const char* kind_name(u32 kind);

enum class Duration : u8 { once, from_then_on };

// torn: a commit or purge that fails has done its work on the first half of the range, as the kernel's can when the
// range consists of several mappings. Both leave a state that the contract allows the caller to see: committed memory
// that it believes reserved, and pages that read as zero though the purge failed.
enum class Damage : u8 { none, torn };

struct Faults {
  u64 nth = 0;  // the n-th call of `kinds` from now fails; 0: none does for its number
  Duration duration = Duration::once;
  u32 kinds = kAllKinds;
  Damage damage = Damage::none;
  u32 one_in = 0;  // beside that, one call in so many fails, at random; 0: none does by chance
};

// Sets which calls fail, and starts counting from 0.
void set_faults(const Faults& faults);
// From now on nothing fails; counts stay.
void stop_faults();

// Calls of the kinds that set_faults named since then, and how many of them were made to fail.
u64 counted_calls();
u64 failed_calls();
// Calls of one kind since the process started, whether or not they failed.
u64 calls_of(Kind kind);

// Bytes that may be reserved at a time in all; a reservation beyond is refused (and counts neither as a call nor as a
// fault). 0: no limit. reservation_limit() keeps to it too.
void set_address_space(usize bytes);
usize reserved_bytes();

// What cgroup_memory_limit("") gives from now on; at first kNoMemoryLimit, whatever the machine has. How often it was
// asked.
void set_memory_limit(usize bytes);
u64 limits_read();

// From now on calls that may fail let other threads run before and after, now and then: what two threads do around a
// slow system call meets more often.
void set_jitter(bool on);

// Each commit, purge or release calls this before anything else; nullptr: nothing. For what others do while the kernel
// works.
void set_at_commit(void (*call)());
void set_at_purge(void (*call)());
void set_at_release(void (*call)());

// Whether the kernel has pages that forks wipe; before the start.
void set_wiped_pages(bool offered);
bool offers_wiped_pages();

// Whether the kernel offers the barrier; before prepare_barrier is called.
void set_barrier(bool offered);

// The time that monotonic_ns() and coarse_ns() give from now on; 0: the real one.
void set_clock(u64 nanoseconds);

// What processors() and current_processor() give from now on; kReal: the real ones; kRoaming (current_processor only):
// another one at each call, as if every thread moved all the time.
inline constexpr u32 kReal = ~u32{0};
inline constexpr u32 kRoaming = kReal - 1;
void set_processors(u32 count);
void set_current_processor(u32 number);

// A world with threads of its own answers in the kernel's place (test/trial). All are called by the thread that makes
// the call.
struct World {
  bool (*fails)(Kind kind);  // a call that may fail, before anything else: others may run first. true: it fails
  void (*returns)();         // what it came back with is not yet seen: others may run first
  void* (*place)(usize length, usize alignment);  // reserves address space, the same in each run
  u64 (*clock)();
  u32 (*processor)();
  u64 (*random_seed)();
  void (*yield)();
  void (*pause)(u64 nanoseconds);
  bool (*start)(void (*body)());  // start_transient
  bool (*on_fork)(void (*prepare)(), void (*parent)(), void (*child)());
  bool (*is_first_thread)();
  void (*block_signals)(bool blocked);  // of the calling thread, or no more
};
// Before the first call, and for ever; it outlives the process.
void set_world(const World* world);

}  // namespace coffer::os::fake
