// SPDX-License-Identifier: MIT
// What `coffer heap --pid` and its like have a thread of this process call, as a debugger would: tools/attach holds the
// thread, wherever it is just now, so each of these may do what a signal handler may. Nothing in here calls them.
//
// They are found by an ELF note, which survives strip and static linking and is no symbol of the library's: name
// "Coffer", type 1, and in it the distances from each field to what it names, 32 bits each: attached_start,
// attached_stop, attached_dump, and the area's begin and end. Another layout needs another type.
#include "inspect/profiling.hpp"
#include "os/os.hpp"

#define COFFER_ATTACHED extern "C" __attribute__((visibility("hidden"), used))

// Stack of these calls, and the frame that the thread comes back by: threads' own stacks may be small. It begins with
// what tools/attach keeps there: the number of the thread that has it, and the answer.
extern "C" {
alignas(4096) __attribute__((visibility("hidden"), used)) char coffer_attached_area[64 * 1024];
}

namespace coffer {

namespace {

constexpr u64 kHeldNs = 100'000'000;  // until the thread goes on by itself

// Who holds the thread sees the answer, stops it here, and gives it its registers back. That is better than to return:
// a system call that was interrupted then goes on as if nothing had been. If they were killed, the frame serves.
void say(u32* answer, Write said) {
  __atomic_store_n(answer, static_cast<u32>(said), __ATOMIC_RELEASE);
  for (const u64 until = os::monotonic_ns() + kHeldNs; os::monotonic_ns() < until;) os::yield();
}

}  // namespace

}  // namespace coffer

// Samples from now on, one in so many bytes on average.
COFFER_ATTACHED void coffer_attached_start(coffer::u64 mean, coffer::u32* answer) {
  coffer::profile_start(mean);
  coffer::say(answer, coffer::Write::done);
}

COFFER_ATTACHED void coffer_attached_stop(coffer::u64, coffer::u32* answer) {
  coffer::profile_stop();
  coffer::say(answer, coffer::Write::done);
}

// The profile, into an open file.
COFFER_ATTACHED void coffer_attached_dump(coffer::u64 file, coffer::u32* answer) {
  coffer::say(answer, coffer::profile_write(static_cast<int>(file)));
}

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
