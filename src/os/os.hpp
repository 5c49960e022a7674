// SPDX-License-Identifier: MIT
// The contract with the operating system. Everything Coffer asks of the kernel goes through these functions; one
// implementation lies in os/linux, a second, which makes calls fail on demand, in os/fake (it wraps the first).
//
// Common to all: no function allocates, throws, or changes errno; addresses and lengths are multiples of page_size()
// unless said; a function that can fail returns false or nullptr and has then changed nothing.
#pragma once

#include "base/text.hpp"

namespace coffer::os {

inline constexpr usize kNoMemoryLimit = ~usize{0};
inline constexpr usize kProgramNameBytes = 16;
inline constexpr u32 kMostBuildId = 32;
enum class HugePages : u8 { forbid, allow };
// Whether Coffer works here, and why not.
enum class Support : u8 { yes, page_too_large, kernel_too_old };
enum class Existing : u8 { refuse, empty, append };
enum class Access : u8 { unknown, read, write };
// An access to memory that may not be touched so.
struct Fault {
  uptr address;
  Access access;
  const void* context;  // of the thread; see interrupted_stack
};
struct Purged {
  u64 calls, bytes;
};
struct Mapping {
  uptr begin, end;
  u64 offset;        // in the file
  const char* path;  // while visit runs; "" where there is none
  u8 build_id[kMostBuildId];
  u32 build_id_bytes;  // 0: unknown
};

}  // namespace coffer::os

// Whoever wraps an implementation sees that one's functions here, and defines those of the namespace os.
#ifndef COFFER_OS_DECLARED
#define COFFER_OS_DECLARED os
#endif

namespace coffer::COFFER_OS_DECLARED {

// Size of a page in bytes, a power of two, 4096 to 64 KiB; read from the kernel at the first call.
usize page_size();

// Pages of at most 64 KiB, and Linux 4.14 or newer; of a kernel that does not say how old it is the best is believed.
// Asks the kernel nothing.
os::Support support();

// Processors this process may run on (at least 1), read once, and the one that runs the caller now (a hint: may be
// any number, reduce it modulo the number of shards).
u32 processors();
u32 current_processor();

// Largest reservation the process's limits allow now: what is left of RLIMIT_AS / 4 if that is finite; less than
// RLIMIT_MEMLOCK if that is finite, at least 64 MiB (smaller ones are distributions' defaults, not a wish to lock
// everything) and the process lacks the privilege; else `wanted`, and also when a filter came: the kernel may then
// refuse. Never more than `wanted`.
usize reservation_limit(usize wanted);

// Whether RLIMIT_AS, which the program may have lowered since, leaves room for `more` bytes to be committed, if
// `unused_reservation` bytes of what the kernel counts are only reserved. The limit is read only where the kernel
// refuses a mapping.
bool limit_allows(usize more, usize unused_reservation);

// The lowest memory limit, in bytes, of the process's control group and those above it (version 2: memory.max and
// memory.high; version 1: memory.limit_in_bytes), as far up as they are mounted. kNoMemoryLimit: there is none, or none
// can be read. `root` stands before every path that is opened; it is "" but in tests. Takes some 20 system calls.
usize cgroup_memory_limit(const char* root);

// Reserves `length` bytes of address space at an address that is a multiple of `alignment` (a power of two), without
// access and without memory. Core files leave it out until it is committed. nullptr when the kernel refuses.
void* reserve(usize length, usize alignment);
// Gives a reservation (or part of it) back.
void release(void* address, usize length);

// Makes reserved memory readable and writable, zero where it was not so before; memory that was committed keeps its
// content (committing twice is harmless). Under mlockall(MCL_FUTURE) the memory is locked as the process asked.
bool commit(void* address, usize length);
// Whether the process was seen to lock its memory (mlockall): what is committed is then backed at once.
bool locks_memory();
// In a fork child: locks are not inherited.
void forget_locking();
// For memory that was committed before and may have been purged since: if the process locks its memory, the pages that
// the range touches, which need not be whole ones, are made resident again. Free of cost otherwise.
void keep_locked(void* address, usize length);
// Locks committed memory and brings its pages in. 0, or mlock's error number: EPERM, ENOMEM, EAGAIN; some of the pages
// may be locked then.
int pin(void* address, usize length);
// Brings the pages of committed memory in, writable, without locking them; pages shared with a fork child become this
// process's own. What they hold stays, also if others write meanwhile. false: there is not enough memory.
bool populate(void* address, usize length);
// Gives the physical pages back; the memory stays committed and reads as zero afterwards. Works on locked memory.
// false: the kernel refused; content is unchanged or zero, page by page.
bool purge(void* address, usize length);

// The opposite of commit: the range is reserved again, without access and without memory. false: nothing changed.
bool decommit(void* address, usize length);

// Committed memory that may not be touched for a while, and what it holds stays; and its end, after which memory that
// the process locks is to be made resident (keep_locked). false: some of it may have changed.
bool forbid_access(void* address, usize length);
bool allow_access(void* address, usize length);
// The same by markers in the page tables, which need no mapping of their own; what the range held is lost, and it is
// zero afterwards. false: the kernel has none (before Linux 6.13), or not for this memory; it is open, and some of what
// it held may be lost.
bool mark_closed(void* address, usize length);
bool unmark_closed(void* address, usize length);

// Moves the pages of [from, from + length) to [to, to + length), both inside reservations and committed; `from` stays
// committed and reads as zero. false: the kernel cannot; nothing moved.
bool move_pages(void* from, void* to, usize length);

// Replaces [address, address + length) by a fresh committed mapping that merges with its neighbours (after
// move_pages, whose mapping remembers its old place). Content is lost. false: nothing changed.
bool remap(void* address, usize length);

// Memory from the kernel in one step: as reserve and then commit, zero.
void* map(usize length, usize alignment);
// Makes a reservation that is committed whole `wanted` bytes long, over `length`: in its place where there is room
// behind it, else in a new one (its old place is then released). What is new is committed and zero; the content is
// kept. nullptr: the kernel cannot.
void* grow(void* address, usize length, usize wanted);

// Tells which pages of committed memory are resident: the lowest bit of a byte for each. false: the kernel does not
// say.
bool resident_pages(const void* address, usize length, u8* pages);

// Asks for huge pages in the range, or forbids them. Advice: failure is ignored.
void advise_huge_pages(void* address, usize length, os::HugePages advice);

// Names a range for /proc/self/maps where the kernel can; `name` must be a literal. Advice.
void name_mapping(void* address, usize length, const char* name);

// Writes to stderr, whole, retrying short writes. Any length.
void write_error(const char* text, usize length);
// Ends a line, and writes it.
inline void write_line(Text& line) {
  line.end_line();
  write_error(line.data(), line.stored());
}

// Random bytes for seeds; falls back to address and time entropy when the kernel has none to give.
u64 random_seed();

// Bytes of the process's page tables; 0 where the kernel does not say, or a filter came. Reads a file: for figures that
// a person asks for.
usize page_table_bytes();

// Nanoseconds of a clock that never steps back; coarse_ns: of one that goes in steps of a few milliseconds and costs
// less.
u64 monotonic_ns();
u64 coarse_ns();

// Has the functions called by fork: before it, and after it in the parent and in the child. May allocate. false: the
// C library has no room for them.
bool on_fork(void (*prepare)(), void (*parent)(), void (*child)());
// Whether on_fork may be called by such a function, as of another library: with musl it would wait for ever, and
// with older versions of glibc.
bool on_fork_while_forking();
// Committed memory that is zero, and that the child of a fork, however it was made, finds zero again (the child of
// vfork has the parent's memory). nullptr: the kernel has none.
void* map_wiped_in_children(usize length);
// Blocks all signals of the calling thread; *before: what restore_signals takes. false: the kernel refuses.
bool block_signals(u64* before);
void restore_signals(u64 before);
// Whether the caller is the process's first thread. In a fork child that is the one that forked.
bool is_first_thread();

// A memory barrier on every processor that runs a thread of this process, so that the other threads need none.
// prepare_barrier: once, before anyone asks; has_barrier: whether the kernel offers it, fixed from then on.
// barrier_everywhere: when it returns true, each other thread has passed a full barrier since the call began. false:
// the kernel refused (a filter that was installed later).
void prepare_barrier();
bool has_barrier();
bool barrier_everywhere();

// Filters of system calls (seccomp). note_filter: at the start. filter_came: the process came under one since then. It
// may kill whoever calls what the program did not expect, so nothing is read or asked any more that can be done
// without; this question itself is one call, prctl(PR_GET_SECCOMP), until the answer is yes.
void note_filter();
bool filter_came();

// Lets another thread run (spin locks).
void yield();

// Sleeps, without being a point of cancellation.
void pause_ns(u64 nanoseconds);

// The calling process is the one that may start transient threads: at its start, and in a fork child, which has none of
// its parent's.
void note_process();
// Whether this is that process. A child of vfork is another one, in the same memory.
bool is_noted_process();
// Starts a thread that runs `body` and then ends. The C library does not know of it: nothing is allocated, no lock of
// the C library is taken, and nobody waits for it. All its signals are blocked. `body` may use Coffer and what of the
// C library needs no thread descriptor (system calls, clocks, errno). One at a time: the caller sees to it that `body`
// of the last one was about to return. false: the kernel refuses; or such a thread is not to be had here (a child of
// vfork, a process that came under a filter, one with a single thread that always was under one, variables too far from
// the thread pointer, a build with sanitizers).
bool start_transient(void (*body)());
// Whether a thread-local variable, given by its address in the calling thread, is on transient threads, too. What
// `body` uses must be; start_transient itself looks at those of the C library and of this folder only.
bool transient_reaches(const volatile void* variable);

// True in a process whose privileges were raised at exec (setuid): the environment is not to be trusted.
bool elevated();

// Whether the calling thread, a transient one, has the capabilities that the process's first thread has: setuid and its
// kin do not reach it, and a process that gave up root's rights shall not keep a thread that has them.
bool has_process_rights();

// Calls to the kernel for memory since the start, and those of them that gave pages back, with their bytes
// (statistics).
u64 call_count();
os::Purged purged();

// --- For what is shown to people: files, signals, who the process is. ---

// The process's number as it sees itself, its effective user, and a number that tells its PID namespace from others (0:
// unknown).
u32 process_number();
u32 user_number();
u64 pid_namespace();
// The name by which the kernel knows the program, with its final 0.
void program_name(char (&name)[os::kProgramNameBytes]);
// Nanoseconds since the machine started, with its sleep, and since 1970.
u64 boot_ns();
u64 unix_ns();

// Makes a file that was not there, readable and writable by the user alone, with all its memory taken, so that no write
// to it can fail later, and maps it for reading and writing, shared with whoever reads the file. No descriptor stays
// open. nullptr: it exists, or cannot be made; then there is none of this call.
void* share_file(const char* path, usize length);
void unshare_file(void* address, usize length);
bool remove_file(const char* path);
// Calls visit(name, context) for up to `most` names in a directory; for none if it cannot be read.
void for_each_name(const char* directory, u32 most, void (*visit)(const char* name, void* context), void* context);
// Whether a process of that number is known not to exist.
bool is_process_gone(u32 process);

// A file for writing, of mode 0600 if it is new: one that was not there, or whatever is there, emptied, or to be added
// to. -1: it cannot be had. write_file: whole, or false. close_file: false if what was written is lost.
int create_file(const char* path, os::Existing existing);
// One without a name, in memory.
int memory_file();
bool write_file(int file, const void* from, usize length);
bool close_file(int file);

// Return addresses, less 1, of the functions that called the caller of the caller and so on, the last call first; of
// unknown ones the list ends. Up to some hundreds of nanoseconds each; takes no lock, may be called in signal handlers.
u32 call_stack(uptr* frames, u32 most);
// The same of a thread that a signal interrupted, whose context this is. The first is the instruction itself.
u32 interrupted_stack(const void* context, uptr* frames, u32 most);
// Where the shared library that an address lies in ends and begins; 0: in none, or in the program itself.
uptr library_end(uptr inside, uptr* begin);

// Memory that has code.
void for_each_code_mapping(void (*visit)(const os::Mapping& mapping, void* context), void* context);

// Has `handler` called for a signal, restarting system calls that it interrupts, on the alternate stack where the
// thread has one. false: there is no such signal, or it cannot be caught.
bool on_signal(u32 signal, void (*handler)(int));
// Has `handler` called at each fault (SIGSEGV), on the alternate stack where the thread has one. When it returns the
// signal goes on to whoever had it before, which may be the kernel. To be called again from time to time, one thread at
// a time: where the program installed a handler since, `handler` is put before that one, too; but only once. false:
// it cannot be had, or a filter came.
bool on_fault(void (*handler)(const os::Fault& fault));
// The calling thread's number, as the kernel knows it.
u32 thread_number();

}  // namespace coffer::COFFER_OS_DECLARED
