// SPDX-License-Identifier: MIT
// What `coffer heap --pid` and its like have a thread of this process call, as a debugger would: tools/attach holds the
// thread, wherever it is just now, so each of these may do what a signal handler may. Nothing in here calls them.
//
// They are found by an ELF note, which survives strip and static linking and is no symbol of the library's: name
// "Coffer", type 1, and in it five distances of 32 bits, each from its own field: to coffer_attached_start,
// coffer_attached_stop, coffer_attached_dump, the begin and the end of coffer_attached_area. Another layout needs
// another type.
#include "base/atomic.hpp"
#include "cpu/spin_hint.hpp"
#include "inspect/profiling.hpp"
#include "os/os.hpp"

#define COFFER_ATTACHED extern "C" __attribute__((visibility("hidden"), used))

// Stack of these calls, and the frame that the thread comes back by: threads' own stacks may be small. It begins with
// an Exchange.
extern "C" {
alignas(64) __attribute__((visibility("hidden"), used)) char coffer_attached_area[64 * 1024];
}

namespace coffer {

namespace {

enum class Step : u32 { working, offered, done, failed, busy };

// tools/attach sets all to 0 but the holder; a call sets `file` and then `step`. busy: another time.
struct Exchange {
  Atomic<u32> holder;  // the number of the thread that has the area; tools/attach alone
  Atomic<Step> step;
  Atomic<u32> file;   // a descriptor, when it is offered
  Atomic<u32> taken;  // 1: tools/attach has opened it, too
};
static_assert(sizeof(Exchange) == 16);

Exchange& exchange() { return *reinterpret_cast<Exchange*>(coffer_attached_area); }

constexpr u64 kSpinNs = 100'000;          // who holds the thread looks this often, and more so
constexpr u64 kPatienceNs = 100'000'000;  // then it was killed

template <class Condition>
void wait_until(Condition is_so) {
  const u64 begun = os::monotonic_ns();
  while (!is_so()) {
    const u64 passed = os::monotonic_ns() - begun;
    if (passed > kPatienceNs) return;
    passed < kSpinNs ? spin_hint() : os::yield();
  }
}

// Who holds the thread sees it, stops it here, and gives it its registers back. That is better than to return: a system
// call that was interrupted then goes on as if nothing had been. If they were killed, the frame serves.
void say(Step last) {
  exchange().step.store(last, release);  // release: pairs with the reading from outside, which sees what was done
  wait_until([] { return false; });
}

Step dump() {
  const int file = os::memory_file();
  if (file < 0) return Step::failed;
  const Write written = profile_write(file);
  if (written == Write::done) {
    exchange().file.store(static_cast<u32>(file), relaxed);          // relaxed: told by the release below
    exchange().step.store(Step::offered, release);                   // release: as in say
    wait_until([] { return exchange().taken.load(relaxed) != 0; });  // relaxed: a hint, nothing is read after it
  }
  os::close_file(file);
  return written == Write::done ? Step::done : written == Write::busy ? Step::busy : Step::failed;
}

}  // namespace

}  // namespace coffer

// Samples from now on, one in so many bytes on average.
COFFER_ATTACHED void coffer_attached_start(coffer::u64 mean) {
  coffer::profile_start(mean);
  coffer::say(coffer::Step::done);
}

COFFER_ATTACHED void coffer_attached_stop() {
  coffer::profile_stop();
  coffer::say(coffer::Step::done);
}

// The profile, in a file that is there for as long as it is offered.
COFFER_ATTACHED void coffer_attached_dump() { coffer::say(coffer::dump()); }

__asm__(
    ".pushsection .note.coffer, \"a\", %note\n"
    ".balign 4\n"
    ".long 7, 20, 1\n"
    ".asciz \"Coffer\"\n"
    ".balign 4\n"
    ".long coffer_attached_start - .\n"
    ".long coffer_attached_stop - .\n"
    ".long coffer_attached_dump - .\n"
    ".long coffer_attached_area - .\n"
    ".long coffer_attached_area + 65536 - .\n"
    ".popsection\n");
