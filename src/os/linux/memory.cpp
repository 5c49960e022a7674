// SPDX-License-Identifier: MIT
// Address space and physical memory on Linux. Every function restores errno: free must not change it.
#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/atomic.hpp"
#include "base/bits.hpp"
#include "os/linux/filter.hpp"
#include "os/linux/reader.hpp"

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

namespace coffer {
namespace COFFER_OS_NAMESPACE {

using os::HugePages;

namespace {

Atomic<u64> g_calls;
Atomic<u64> g_purges, g_purged_bytes;  // those that succeeded
Atomic<u64> g_moves;                   // calls of grow
// How the process locks its memory (mlockall): not, as soon as it is mapped, or when it is touched (MCL_ONFAULT).
enum class Locking : u32 { none, at_once, on_fault };
Atomic<Locking> g_locking;  // as seen when memory was committed or purged

struct Call {
  Call() { g_calls.fetch_add(1, relaxed); }  // relaxed: a statistic
  const KeepErrno keep;
};

constexpr usize kSmallestLockWish = usize{64} << 20;

bool may_lock_without_limit() {
  struct {
    u32 version;
    i32 pid;
  } header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct {
    u32 effective, permitted, inheritable;
  } data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective >> CAP_IPC_LOCK) & 1;
}

// Bytes of address space in use, from /proc/self/statm; 0 if unknown.
usize address_space_in_use(usize page) {
  Reader reader("/proc/self/statm");
  usize pages = 0;
  for (int digit = reader.next(); digit >= '0' && digit <= '9'; digit = reader.next()) {
    pages = pages * 10 + static_cast<usize>(digit - '0');
  }
  return pages * page;
}

// How new memory is to be locked: the kernel has no question for it, but a fresh page answers: one that is locked
// refuses MADV_DONTNEED.
Locking new_memory_locking(usize page) {
  void* probe = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // A probe that fails for want of lockable memory (EAGAIN) is an answer too.
  if (probe == MAP_FAILED) return errno == EAGAIN ? Locking::at_once : Locking::none;
  Locking answer = Locking::none;
  if (madvise(probe, page, MADV_DONTNEED) != 0 && errno == EINVAL) {
    unsigned char resident = 0;
    answer = mincore(probe, page, &resident) == 0 && (resident & 1) == 0 ? Locking::on_fault : Locking::at_once;
  }
  munmap(probe, page);
  return answer;
}

}  // namespace

usize page_size() {
  static Owned<usize> cached;
  if (cached.get() == 0) {
    const Call call;
    // Not sysconf: its code and its table lie where nothing else of the start does, and the kernel maps 128 KiB of the
    // C library around them.
    const unsigned long got = getauxval(AT_PAGESZ);
    cached.set(got > 0 ? got : 4096);
  }
  return cached.get();
}

usize reservation_limit(usize wanted) {
  if (os::filter_came()) return wanted;
  const Call call;
  usize limit = wanted;
  struct rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const usize used = address_space_in_use(page_size());
    const usize left = space.rlim_cur > used ? space.rlim_cur - used : 0;
    limit = left / 4 < limit ? left / 4 : limit;
  }
  struct rlimit lockable;
  if (getrlimit(RLIMIT_MEMLOCK, &lockable) == 0 && lockable.rlim_cur != RLIM_INFINITY &&
      lockable.rlim_cur >= kSmallestLockWish && !may_lock_without_limit()) {
    // mlockall(MCL_CURRENT) compares all address space with the limit: leave half for everything else.
    const usize half = lockable.rlim_cur / 2;
    limit = half < limit ? half : limit;
  }
  return limit;
}

bool limit_allows(usize more, usize unused_reservation) {
  const Call call;
  // What is committed was counted when it was reserved. So there is room, unless the limit was lowered below what the
  // kernel counts now: then it refuses every mapping. (So it does where there are too many; mprotect will tell.)
  void* probe = mmap(nullptr, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe != MAP_FAILED) {
    munmap(probe, page_size());
    return true;
  }
  struct rlimit space;
  if (os::filter_came() || getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return true;
  const usize used = address_space_in_use(page_size());
  const usize counted = used > unused_reservation ? used - unused_reservation : 0;
  return counted <= space.rlim_cur && more <= space.rlim_cur - counted;
}

namespace {

// Without MAP_NORESERVE: what cannot be accessed is not accounted, and what becomes writable later is to be, so that
// the kernel can refuse what this machine could never back.
void* map_aligned(usize length, usize alignment, int protection) {
  const usize page = page_size();
  usize padded = 0;
  const usize extra = alignment > page ? alignment - page : 0;
  if (!checked_add(length, extra, &padded)) return nullptr;
  void* got = mmap(nullptr, padded, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  const uptr start = reinterpret_cast<uptr>(got);
  const uptr aligned = round_up(start, alignment > page ? alignment : page);
  if (aligned > start) munmap(got, aligned - start);
  const uptr end = start + padded;
  if (end > aligned + length) munmap(reinterpret_cast<void*>(aligned + length), end - aligned - length);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

// What is only reserved does not belong into a core file: gcore would write all of it. The flag stands on what cannot
// be touched, and on nothing else, so it parts no mappings that would merge without it. Advice: failure is ignored.
void* reserve(usize length, usize alignment) {
  const Call call;
  void* const got = map_aligned(length, alignment, PROT_NONE);
  if (got != nullptr) madvise(got, length, MADV_DONTDUMP);
  return got;
}

// Under mlockall(MCL_FUTURE) the kernel locks it by itself, unlike what becomes writable later.
void* map(usize length, usize alignment) {
  const Call call;
  return map_aligned(length, alignment, PROT_READ | PROT_WRITE);
}

void* map_wiped_in_children(usize length) {
  const Call call;
  void* const got = map_aligned(length, page_size(), PROT_READ | PROT_WRITE);
  if (got == nullptr || madvise(got, length, MADV_WIPEONFORK) == 0) return got;
  munmap(got, length);
  return nullptr;
}

void release(void* address, usize length) {
  const Call call;
  munmap(address, length);
}

bool commit(void* address, usize length) {
  const Call call;
  if (mprotect(address, length, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(address, length, MADV_DODUMP);
  // Memory that becomes writable is locked by the kernel only if its mapping was locked already (MCL_CURRENT); under
  // MCL_FUTURE alone a new mapping would be, so what is new to the program is locked here.
  const Locking locking = new_memory_locking(page_size());
  g_locking.store(locking, relaxed);  // relaxed: what later calls go by may be late
  if (locking == Locking::none) return true;
  // On failure the range stays writable: some of it may have been so before, and holds data.
  return mlock2(address, length, locking == Locking::on_fault ? MLOCK_ONFAULT : 0) == 0;
}

void forget_locking() { g_locking.store(Locking::none, relaxed); }  // relaxed: see commit

bool locks_memory() { return g_locking.load(relaxed) == Locking::at_once; }  // relaxed: see commit

void keep_locked(void* address, usize length) {
  if (!locks_memory()) return;
  const Call call;
  // Locking what is locked brings its pages in.
  mlock(address, length);
}

int pin(void* address, usize length) {
  const Call call;
  return mlock(address, length) == 0 ? 0 : errno;
}

bool resident_pages(const void* address, usize length, u8* pages) {
  // A filter may kill who asks.
  if (filter_now() != Filter::none) return false;
  const Call call;
  return mincore(const_cast<void*>(address), length, pages) == 0;
}

bool populate(void* address, usize length) {
  const Call call;
  if (madvise(address, length, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  // Kernels before 5.14: by hand. A word is replaced by itself, which is a write, but loses nobody else's.
  for (usize offset = 0; offset < length; offset += page_size()) {
    auto& word = *reinterpret_cast<Atomic<usize>*>(static_cast<char*>(address) + offset);
    usize found = word.load(relaxed);  // relaxed, all: the value goes nowhere
    while (!word.compare_exchange(found, found, relaxed, relaxed)) {
    }
  }
  return true;
}

namespace {

bool purge_or_locked(void* address, usize length) {
  if (madvise(address, length, MADV_DONTNEED) == 0) return true;
  if (errno != EINVAL) return false;
  // Locked: all memory, or what the program locked itself and freed. relaxed, both: see commit.
  if (g_locking.load(relaxed) == Locking::none) g_locking.store(new_memory_locking(page_size()), relaxed);
  return madvise(address, length, MADV_DONTNEED_LOCKED) == 0;
}

}  // namespace

bool purge(void* address, usize length) {
  const Call call;
  if (!purge_or_locked(address, length)) return false;
  g_purges.fetch_add(1, relaxed);  // relaxed, both: statistics
  g_purged_bytes.fetch_add(length, relaxed);
  return true;
}

os::Purged purged() { return {g_purges.load(relaxed), g_purged_bytes.load(relaxed)}; }  // relaxed: as above

bool move_pages(void* from, void* to, usize length) {
  const Call call;
  // Kernels before 6.17 unmap the target and only then refuse a source of several mappings, which would leave a hole in
  // the arena. So ask first: growing in place is refused with ENOMEM for one mapping, with EFAULT for several.
  if (mremap(from, length, length + page_size(), 0) != MAP_FAILED || errno != ENOMEM) return false;
  // The kernel takes the lock from all of a mapping of which pages are moved away, and so from other blocks. It refuses
  // this advice, which changes nothing that is seen, for locked memory alone.
  if (madvise(from, page_size(), MADV_COLD) != 0) return false;
  // A plain move leaves a hole that another thread's mmap could take before it is filled again.
  return mremap(from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != MAP_FAILED;
}

bool remap(void* address, usize length) {
  const Call call;
  return mmap(address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void* grow(void* address, usize length, usize wanted) {
  const Call call;
  // What this thread did at its old place comes before what the next one does there, which may be given it by its own
  // mremap at once. The kernel's lock of the address space sees to it, but neither the language nor ThreadSanitizer,
  // which knows mmap and munmap, has heard of mremap.
  // release: pairs with the acquire of whoever's memory moves to where this leaves; a fetch_add, so that later ones of
  // others do not end what it releases.
  g_moves.fetch_add(1, std::memory_order_release);  // `release` is a function here
  void* got = mremap(address, length, wanted, MREMAP_MAYMOVE);
  // acquire: pairs with the release above of whoever left this place.
  static_cast<void>(g_moves.load(acquire));
  return got != MAP_FAILED ? got : nullptr;
}

// By a new mapping, which replaces the old one in one step: nobody else's can get in between. It loses the advice on
// huge pages, which memory that cannot be touched does not need; but then it would not merge with what was reserved.
bool decommit(void* address, usize length) {
  const Call call;
  if (mmap(address, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return false;
  madvise(address, length, MADV_NOHUGEPAGE);
  madvise(address, length, MADV_DONTDUMP);
  return true;
}

bool forbid_access(void* address, usize length) {
  const Call call;
  return mprotect(address, length, PROT_NONE) == 0;
}

bool allow_access(void* address, usize length) {
  const Call call;
  return mprotect(address, length, PROT_READ | PROT_WRITE) == 0;
}

bool mark_closed(void* address, usize length) {
  const Call call;
  if (madvise(address, length, MADV_GUARD_INSTALL) == 0) return true;
  // Some of it may have been marked.
  if (errno != EINVAL) madvise(address, length, MADV_GUARD_REMOVE);
  return false;
}

bool unmark_closed(void* address, usize length) {
  const Call call;
  return madvise(address, length, MADV_GUARD_REMOVE) == 0;
}

void advise_huge_pages(void* address, usize length, HugePages advice) {
  const Call call;
  madvise(address, length, advice == HugePages::allow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void name_mapping(void* address, usize length, const char* name) {
  const Call call;
  prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address, length, name);
}

u64 call_count() { return g_calls.load(relaxed); }  // relaxed: a statistic

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
