// SPDX-License-Identifier: MIT
// What os/linux defines when it is compiled with COFFER_OS_NAMESPACE=os_linux.
#define COFFER_OS_DECLARED os_linux
#include "os/fake/fake.hpp"

#include <errno.h>
#include <stdlib.h>

#include "base/atomic.hpp"
#include "base/bits.hpp"

namespace coffer::os {

// COFFER_FAKE_PAGE in the environment, in bytes: larger pages than the machine's, as far as a caller can tell.
usize page_size() {
  static Owned<usize> cached;
  if (cached.get() == 0) {
    const char* const text = getenv("COFFER_FAKE_PAGE");
    const usize asked = text != nullptr ? strtoul(text, nullptr, 10) : 0;
    cached.set(asked > os_linux::page_size() ? asked : os_linux::page_size());
  }
  return cached.get();
}

namespace {

// A number that any thread may read and change at any time.
class Cell {
 public:
  constexpr explicit Cell(u64 value = 0) : value_(value) {}
  // seq_cst, all: pair with each other. Speed is no matter here, and a test that reads a count wants the newest.
  u64 get() const { return value_.load(seq_cst); }
  void set(u64 value) { value_.store(value, seq_cst); }                       // seq_cst: as get
  u64 add(u64 amount) { return value_.fetch_add(amount, seq_cst) + amount; }  // seq_cst: as get
  void subtract(u64 amount) { value_.fetch_sub(amount, seq_cst); }            // seq_cst: as get

 private:
  Atomic<u64> value_;
};

void (*g_at_commit)();
void (*g_at_purge)();
void (*g_at_release)();
const fake::World* g_world;  // nullptr: the machine's own threads and clock
Cell g_nth, g_one_in, g_counted, g_failed, g_kinds, g_persistent, g_torn, g_jitter;
Cell g_calls_of[fake::kKinds];
Cell g_address_space, g_reserved, g_clock, g_no_barrier, g_no_wiped_pages;
Cell g_memory_limit(kNoMemoryLimit), g_limits_read;
Cell g_processors(fake::kReal), g_current(fake::kReal), g_asked;

// Numbers that look random and follow from the call's number: the same run fails in the same places.
u64 scramble(u64 number) {
  number = (number + 1) * 0x9e3779b97f4a7c15u;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

void jitter(u64 number) {
  if (g_jitter.get() == 0) return;
  for (u64 i = scramble(number) % 4; i > 0; --i) os_linux::yield();
}

bool is_chosen(u64 number) {
  const u64 nth = g_nth.get();
  if (nth != 0 && (number == nth || (number > nth && g_persistent.get() != 0))) return true;
  const u64 one_in = g_one_in.get();
  return one_in != 0 && scramble(number) % one_in == 0;
}

// Counts a call; true when it has to fail.
bool refuse(fake::Kind kind) {
  const u64 of_kind = g_calls_of[lowest_bit(kind)].add(1);
  if (g_world != nullptr) return g_world->fails(kind);
  jitter(of_kind);
  if ((g_kinds.get() & kind) == 0 || !is_chosen(g_counted.add(1))) return false;
  g_failed.add(1);
  return true;
}

// What a call came back with, after some time.
template <class Result>
Result later(Result result) {
  jitter(g_counted.get());
  if (g_world != nullptr) g_world->returns();
  return result;
}

usize first_half(usize length) { return round_down(length / 2, os_linux::page_size()); }

bool torn() { return g_torn.get() != 0; }

// What a kernel with the pages of this test would refuse, or do to more than was meant.
void must_be_pages(const char* call, const void* address, usize length) {
  const usize page = page_size();
  if (reinterpret_cast<uptr>(address) % page == 0 && length % page == 0) return;
  TextBuffer<160> line;
  line.add("os/fake: ").add(call).add(" of ").number(length).add(" bytes at ").hex(reinterpret_cast<uptr>(address));
  line.add(", pages have ").number(page);
  os_linux::write_line(line);
  abort();
}

usize least_alignment(usize alignment) { return alignment > page_size() ? alignment : page_size(); }

// Takes `length` from the address space that the test grants.
bool take_address_space(usize length) {
  const u64 limit = g_address_space.get();
  if (g_reserved.add(length) <= limit || limit == 0) return true;
  g_reserved.subtract(length);
  return false;
}

}  // namespace

void* reserve(usize length, usize alignment) {
  must_be_pages("reserve", nullptr, length);
  if (refuse(fake::kReserve)) return nullptr;
  if (!take_address_space(length)) return nullptr;
  alignment = least_alignment(alignment);
  void* const got = g_world != nullptr ? g_world->place(length, alignment) : os_linux::reserve(length, alignment);
  if (got == nullptr) g_reserved.subtract(length);
  return got;
}

void release(void* address, usize length) {
  must_be_pages("release", address, length);
  if (g_at_release != nullptr) g_at_release();
  os_linux::release(address, length);
  g_reserved.subtract(length);
}

bool commit(void* address, usize length) {
  must_be_pages("commit", address, length);
  if (g_at_commit != nullptr) g_at_commit();
  if (!refuse(fake::kCommit)) return later(os_linux::commit(address, length));
  if (torn() && first_half(length) > 0) os_linux::commit(address, first_half(length));
  return false;
}

bool purge(void* address, usize length) {
  must_be_pages("purge", address, length);
  if (g_at_purge != nullptr) g_at_purge();
  if (!refuse(fake::kPurge)) return later(os_linux::purge(address, length));
  if (torn() && first_half(length) > 0) os_linux::purge(address, first_half(length));
  return false;
}

bool on_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  return (g_world != nullptr ? g_world->on_fork : os_linux::on_fork)(prepare, parent, child);
}
bool on_fork_while_forking() { return os_linux::on_fork_while_forking(); }
void* map_wiped_in_children(usize length) {
  must_be_pages("map_wiped_in_children", nullptr, length);
  return g_no_wiped_pages.get() == 0 ? os_linux::map_wiped_in_children(length) : nullptr;
}
bool block_signals(u64* before) {
  if (g_world == nullptr) return os_linux::block_signals(before);
  g_world->block_signals(true);
  return true;
}
void restore_signals(u64 before) {
  if (g_world == nullptr) return os_linux::restore_signals(before);
  g_world->block_signals(false);
}
bool is_first_thread() { return (g_world != nullptr ? g_world->is_first_thread : os_linux::is_first_thread)(); }

bool limit_allows(usize more, usize unused_reservation) { return os_linux::limit_allows(more, unused_reservation); }

void forget_locking() { os_linux::forget_locking(); }

bool locks_memory() { return os_linux::locks_memory(); }

void keep_locked(void* address, usize length) { os_linux::keep_locked(address, length); }

// Bringing pages in is refused as committing them is.
int pin(void* address, usize length) {
  must_be_pages("pin", address, length);
  if (refuse(fake::kCommit)) return EAGAIN;
  // In a world nothing is locked: how much a process may lock differs from machine to machine.
  if (g_world != nullptr) return os_linux::populate(address, length) ? 0 : ENOMEM;
  return os_linux::pin(address, length);
}

bool resident_pages(const void* address, usize length, u8* pages) {
  return os_linux::resident_pages(address, length, pages);
}

bool populate(void* address, usize length) {
  must_be_pages("populate", address, length);
  return !refuse(fake::kCommit) && os_linux::populate(address, length);
}

bool move_pages(void* from, void* to, usize length) {
  must_be_pages("move_pages", from, length);
  must_be_pages("move_pages", to, length);
  return !refuse(fake::kMovePages) && later(os_linux::move_pages(from, to, length));
}

bool remap(void* address, usize length) {
  must_be_pages("remap", address, length);
  return !refuse(fake::kRemap) && later(os_linux::remap(address, length));
}

void* map(usize length, usize alignment) {
  must_be_pages("map", nullptr, length);
  if (refuse(fake::kReserve) || refuse(fake::kCommit)) return nullptr;
  if (!take_address_space(length)) return nullptr;
  alignment = least_alignment(alignment);
  void* got = g_world != nullptr ? g_world->place(length, alignment) : os_linux::map(length, alignment);
  if (g_world != nullptr && got != nullptr && !os_linux::commit(got, length)) got = nullptr;
  got = later(got);
  if (got == nullptr) g_reserved.subtract(length);
  return got;
}

void* grow(void* address, usize length, usize wanted) {
  must_be_pages("grow", address, length | wanted);
  if (refuse(fake::kMovePages) || !take_address_space(wanted - length)) return nullptr;
  if (g_world != nullptr) {
    void* const moved = map(wanted, page_size());
    if (moved != nullptr) __builtin_memcpy(moved, address, length);
    if (moved != nullptr) release(address, length);
    g_reserved.subtract(wanted - length);
    return moved;
  }
  void* const got = later(os_linux::grow(address, length, wanted));
  if (got == nullptr) g_reserved.subtract(wanted - length);
  return got;
}

bool forbid_access(void* address, usize length) {
  must_be_pages("forbid_access", address, length);
  return !refuse(fake::kCommit) && later(os_linux::forbid_access(address, length));
}
bool allow_access(void* address, usize length) {
  must_be_pages("allow_access", address, length);
  return !refuse(fake::kCommit) && later(os_linux::allow_access(address, length));
}
bool mark_closed(void* address, usize length) {
  must_be_pages("mark_closed", address, length);
  return !refuse(fake::kPurge) && later(os_linux::mark_closed(address, length));
}
bool unmark_closed(void* address, usize length) {
  must_be_pages("unmark_closed", address, length);
  return !refuse(fake::kCommit) && later(os_linux::unmark_closed(address, length));
}

// Of the same kind: a fresh mapping over an old one.
bool decommit(void* address, usize length) {
  must_be_pages("decommit", address, length);
  return !refuse(fake::kRemap) && later(os_linux::decommit(address, length));
}

usize reservation_limit(usize wanted) {
  const usize limit = os_linux::reservation_limit(wanted);
  const u64 granted = g_address_space.get();
  if (granted == 0) return limit;
  const u64 reserved = g_reserved.get();
  const u64 left = granted > reserved ? granted - reserved : 0;
  return left < limit ? left : limit;
}

u64 monotonic_ns() {
  if (g_world != nullptr) return g_world->clock();
  const u64 set = g_clock.get();
  return set != 0 ? set : os_linux::monotonic_ns();
}

u64 coarse_ns() {
  if (g_world != nullptr) return g_world->clock();
  const u64 set = g_clock.get();
  return set != 0 ? set : os_linux::coarse_ns();
}

u32 processors() {
  const u64 set = g_processors.get();
  return set != fake::kReal ? static_cast<u32>(set) : os_linux::processors();
}

u32 current_processor() {
  if (g_world != nullptr) return g_world->processor();
  const u64 set = g_current.get();
  if (set == fake::kRoaming) return static_cast<u32>(scramble(g_asked.add(1)) % processors());
  return set != fake::kReal ? static_cast<u32>(set) : os_linux::current_processor();
}

usize cgroup_memory_limit(const char* root) {
  g_limits_read.add(1);
  return *root == 0 ? g_memory_limit.get() : os_linux::cgroup_memory_limit(root);
}

void advise_huge_pages(void* address, usize length, HugePages advice) {
  must_be_pages("advise_huge_pages", address, length);
  os_linux::advise_huge_pages(address, length, advice);
}
void name_mapping(void* address, usize length, const char* name) {
  must_be_pages("name_mapping", address, length);
  os_linux::name_mapping(address, length, name);
}
void write_error(const char* text, usize length) { os_linux::write_error(text, length); }
u64 random_seed() { return g_world != nullptr ? g_world->random_seed() : os_linux::random_seed(); }
usize page_table_bytes() { return os_linux::page_table_bytes(); }

Support support() { return os_linux::support(); }

void prepare_barrier() {
  if (g_no_barrier.get() == 0 && g_world == nullptr) os_linux::prepare_barrier();
}
bool has_barrier() { return g_no_barrier.get() == 0 && (g_world != nullptr || os_linux::has_barrier()); }
// In a world of fibers one thread runs at a time, and what it wrote is there.
bool barrier_everywhere() {
  return !refuse(fake::kBarrier) && later(g_world != nullptr || os_linux::barrier_everywhere());
}

void yield() { g_world != nullptr ? g_world->yield() : os_linux::yield(); }
void pause_ns(u64 nanoseconds) { g_world != nullptr ? g_world->pause(nanoseconds) : os_linux::pause_ns(nanoseconds); }
void note_process() { os_linux::note_process(); }
void note_filter() { os_linux::note_filter(); }
bool filter_came() { return os_linux::filter_came(); }
bool is_noted_process() { return os_linux::is_noted_process(); }
bool has_process_rights() { return os_linux::has_process_rights(); }
bool transient_reaches(const volatile void* variable) { return os_linux::transient_reaches(variable); }
bool start_transient(void (*body)()) {
  return !refuse(fake::kThread) && (g_world != nullptr ? g_world->start(body) : os_linux::start_transient(body));
}
bool elevated() { return os_linux::elevated(); }
u64 call_count() { return os_linux::call_count(); }
Purged purged() { return os_linux::purged(); }
u32 process_number() { return os_linux::process_number(); }
u32 user_number() { return os_linux::user_number(); }
u64 pid_namespace() { return os_linux::pid_namespace(); }
void program_name(char (&name)[kProgramNameBytes]) { os_linux::program_name(name); }
u64 boot_ns() { return os_linux::boot_ns(); }
u64 unix_ns() { return os_linux::unix_ns(); }
void* share_file(const char* path, usize length) {
  return refuse(fake::kFile) ? nullptr : os_linux::share_file(path, length);
}
void unshare_file(void* address, usize length) { os_linux::unshare_file(address, length); }
bool remove_file(const char* path) { return os_linux::remove_file(path); }
void for_each_name(const char* directory, u32 most, void (*visit)(const char* name, void* context), void* context) {
  os_linux::for_each_name(directory, most, visit, context);
}
bool is_process_gone(u32 process) { return os_linux::is_process_gone(process); }
int create_file(const char* path, Existing existing) {
  return refuse(fake::kFile) ? -1 : os_linux::create_file(path, existing);
}
int memory_file() { return refuse(fake::kFile) ? -1 : os_linux::memory_file(); }
bool write_file(int file, const void* from, usize length) {
  return !refuse(fake::kFile) && os_linux::write_file(file, from, length);
}
bool close_file(int file) { return os_linux::close_file(file); }
u32 call_stack(uptr* frames, u32 most) { return os_linux::call_stack(frames, most); }
u32 interrupted_stack(const void* context, uptr* frames, u32 most) {
  return os_linux::interrupted_stack(context, frames, most);
}
uptr library_end(uptr inside, uptr* begin) { return os_linux::library_end(inside, begin); }
void for_each_code_mapping(void (*visit)(const Mapping& mapping, void* context), void* context) {
  os_linux::for_each_code_mapping(visit, context);
}
bool on_signal(u32 signal, void (*handler)(int)) { return os_linux::on_signal(signal, handler); }
bool on_fault(void (*handler)(const Fault& fault)) { return !refuse(fake::kThread) && os_linux::on_fault(handler); }
u32 thread_number() { return os_linux::thread_number(); }

}  // namespace coffer::os

namespace coffer::os::fake {

const char* kind_name(u32 kind) {
  switch (kind) {
    case kReserve:
      return "reserve";
    case kCommit:
      return "commit";
    case kPurge:
      return "purge";
    case kMovePages:
      return "move_pages";
    case kRemap:
      return "remap";
    case kBarrier:
      return "barrier";
    case kThread:
      return "thread";
    case kFile:
      return "file";
    case kAllKinds:
      return "all";
    default:
      return "several";
  }
}

void set_faults(const Faults& faults) {
  stop_faults();
  g_persistent.set(faults.duration == Duration::from_then_on);
  g_torn.set(faults.damage == Damage::torn);
  g_kinds.set(faults.kinds);
  g_counted.set(0);
  g_failed.set(0);
  g_one_in.set(faults.one_in);
  g_nth.set(faults.nth);
}

void stop_faults() {
  g_nth.set(0);
  g_one_in.set(0);
}

void set_world(const World* world) { g_world = world; }

void set_at_commit(void (*call)()) { g_at_commit = call; }
void set_at_purge(void (*call)()) { g_at_purge = call; }
void set_at_release(void (*call)()) { g_at_release = call; }

void set_jitter(bool on) { g_jitter.set(on ? 1 : 0); }

u64 counted_calls() { return g_counted.get(); }
u64 failed_calls() { return g_failed.get(); }
u64 calls_of(Kind kind) { return g_calls_of[lowest_bit(kind)].get(); }

void set_address_space(usize bytes) { g_address_space.set(bytes); }
usize reserved_bytes() { return g_reserved.get(); }

bool offers_wiped_pages() { return g_no_wiped_pages.get() == 0; }
void set_wiped_pages(bool offered) { g_no_wiped_pages.set(offered ? 0 : 1); }
void set_barrier(bool offered) { g_no_barrier.set(offered ? 0 : 1); }
void set_memory_limit(usize bytes) { g_memory_limit.set(bytes); }
u64 limits_read() { return g_limits_read.get(); }

void set_clock(u64 nanoseconds) { g_clock.set(nanoseconds); }
void set_processors(u32 count) { g_processors.set(count); }
void set_current_processor(u32 number) { g_current.set(number); }

}  // namespace coffer::os::fake
