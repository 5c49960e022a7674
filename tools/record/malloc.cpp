// SPDX-License-Identifier: MIT
// The names of C that allocate and free, in front of whatever library comes next.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "record/recorder.hpp"
#include "record/unwind.hpp"

#define RECORD_EXPORT extern "C" __attribute__((visibility("default")))

namespace coffer::record {

namespace {

// Blocks for dlsym, which may want some before the next malloc is known. Each has its size before it.
constexpr std::size_t kEarlyBytes = 65536;
alignas(64) char g_early[kEarlyBytes];
constinit std::atomic<std::size_t> g_early_used{0};

enum class Resolving : u32 { no, now, done };
constinit std::atomic<Resolving> g_resolving{Resolving::no};
__thread bool t_resolves;

template <class F>
void find(F& function, const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found != nullptr) function = reinterpret_cast<F>(found);
}

// Until the next functions are known, these stand for them.
void* first_malloc(std::size_t size) { return resolve() ? g_next.malloc(size) : early_alloc(size, 16); }
void first_free(void* block) {
  if (resolve()) g_next.free(block);
}
void* first_calloc(std::size_t count, std::size_t size) {
  return resolve() ? g_next.calloc(count, size) : early_alloc(count * size, 16);  // dlsym's own; zeros
}
void* first_realloc(void* block, std::size_t size) {
  return resolve() ? g_next.realloc(block, size) : early_alloc(size, 16);
}
void* first_memalign(std::size_t alignment, std::size_t size) {
  return resolve() ? g_next.memalign(alignment, size) : early_alloc(size, alignment);
}
void* first_aligned_alloc(std::size_t alignment, std::size_t size) {
  return resolve() ? g_next.aligned_alloc(alignment, size) : early_alloc(size, alignment);
}
int first_posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  if (resolve()) return g_next.posix_memalign(result, alignment, size);
  *result = early_alloc(size, alignment);
  return *result != nullptr ? 0 : ENOMEM;
}
void* first_valloc(std::size_t size) { return resolve() ? g_next.valloc(size) : nullptr; }
void* first_pvalloc(std::size_t size) { return resolve() ? g_next.pvalloc(size) : nullptr; }
void first_free_sized(void* block, std::size_t size) {
  if (resolve()) g_next.free_sized(block, size);
}
void first_free_aligned_sized(void* block, std::size_t alignment, std::size_t size) {
  if (resolve()) g_next.free_aligned_sized(block, alignment, size);
}
std::size_t first_usable_size(void* block) { return resolve() ? g_next.malloc_usable_size(block) : 0; }
int first_fork() { return resolve() ? g_next.fork() : -1; }
void* first_sbrk(long increment) { return resolve() ? g_next.sbrk(increment) : reinterpret_cast<void*>(-1); }
int first_brk(void* end) { return resolve() ? g_next.brk(end) : -1; }
int first_dlclose(void* library) { return resolve() ? g_next.dlclose(library) : -1; }

// For allocators without the names of C23.
void free_for_sized(void* block, std::size_t) { g_next.free(block); }
void free_for_aligned_sized(void* block, std::size_t, std::size_t) { g_next.free(block); }

void find_all() {
  Next next{};
  find(next.malloc, "malloc");
  find(next.free, "free");
  find(next.calloc, "calloc");
  find(next.realloc, "realloc");
  find(next.memalign, "memalign");
  find(next.aligned_alloc, "aligned_alloc");
  find(next.posix_memalign, "posix_memalign");
  find(next.valloc, "valloc");
  find(next.pvalloc, "pvalloc");
  next.free_sized = free_for_sized;
  next.free_aligned_sized = free_for_aligned_sized;
  find(next.free_sized, "free_sized");
  find(next.free_aligned_sized, "free_aligned_sized");
  find(next.malloc_usable_size, "malloc_usable_size");
  find(next.fork, "fork");
  find(next.sbrk, "sbrk");
  find(next.brk, "brk");
  find(next.dlclose, "dlclose");
  find(next.coffer_stats, "coffer_stats");
  find(next.coffer_version, "coffer_version");
  find_operators();
  dlerror();  // what was not found is no error of the program
  g_next = next;
}

}  // namespace

constinit Next g_next{first_malloc,
                      first_free,
                      first_calloc,
                      first_realloc,
                      first_memalign,
                      first_aligned_alloc,
                      first_posix_memalign,
                      first_valloc,
                      first_pvalloc,
                      first_free_sized,
                      first_free_aligned_sized,
                      first_usable_size,
                      first_fork,
                      first_sbrk,
                      first_brk,
                      first_dlclose,
                      nullptr,
                      nullptr};

bool is_resolved() { return g_resolving.load(std::memory_order_acquire) == Resolving::done; }

bool resolve() {
  if (t_resolves) return false;
  Resolving seen = Resolving::no;
  // acq_rel: one thread does it; release below, acquire in is_resolved: who sees `done` sees g_next.
  if (g_resolving.compare_exchange_strong(seen, Resolving::now, std::memory_order_acq_rel)) {
    t_resolves = true;
    find_all();
    t_resolves = false;
    g_resolving.store(Resolving::done, std::memory_order_release);
    prepare();  // before the allocator's first call, so that what it takes from the system is seen
    return true;
  }
  while (!is_resolved()) sched_yield();
  return true;
}

void* early_alloc(std::size_t size, std::size_t alignment) {
  if (alignment < 16) alignment = 16;
  if (size > kEarlyBytes || alignment > 4096) return nullptr;
  // relaxed: the bytes are ours by the addition alone.
  const std::size_t start = g_early_used.fetch_add(size + alignment + 32, std::memory_order_relaxed);
  if (start + size + alignment + 32 > kEarlyBytes) return nullptr;
  const auto block = (reinterpret_cast<uintptr_t>(g_early) + start + 16 + alignment - 1) & ~(alignment - 1);
  memcpy(reinterpret_cast<char*>(block) - 16, &size, sizeof size);
  return reinterpret_cast<void*>(block);
}

bool is_early(const void* block) {
  return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(g_early) < kEarlyBytes;
}

std::size_t early_size(const void* block) {
  std::size_t size;
  memcpy(&size, static_cast<const char*>(block) - 16, sizeof size);
  return size;
}

namespace {

void* realloc_early(void* block, std::size_t size) {
  void* const moved = g_next.malloc(size);
  if (moved != nullptr) {
    const std::size_t old = early_size(block);
    memcpy(moved, block, old < size ? old : size);
  }
  return moved;
}

}  // namespace

}  // namespace coffer::record

using namespace coffer::record;

RECORD_EXPORT void* malloc(std::size_t size) {
  const Counted counted;
  const Place seen = place();
  void* const block = g_next.malloc(size);
  note_allocation<Op::malloc>(seen, size, block);
  return block;
}

RECORD_EXPORT void free(void* block) {
  const Counted counted;
  if (RECORD_UNLIKELY(block == nullptr || is_early(block))) return;
  note_free(block);
  g_next.free(block);
}

RECORD_EXPORT void* calloc(std::size_t count, std::size_t size) {
  const Counted counted;
  const Place seen = place();
  void* const block = g_next.calloc(count, size);
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
  note_allocation<Op::calloc>(seen, bytes, block);
  return block;
}

RECORD_EXPORT void* realloc(void* block, std::size_t size) {
  const Counted counted;
  const Place seen = place();
  if (block == nullptr || RECORD_UNLIKELY(is_early(block))) {
    void* const fresh = block == nullptr ? g_next.realloc(nullptr, size) : realloc_early(block, size);
    note_allocation<Op::malloc>(seen, size, fresh);
    return fresh;
  }
  const Realloc before = begin_realloc(block, __builtin_frame_address(0));
  void* const result = g_next.realloc(block, size);
  note_realloc(before, block, size, result);
  return result;
}

RECORD_EXPORT void* memalign(std::size_t alignment, std::size_t size) {
  const Counted counted;
  const Place seen = place();
  void* const block = g_next.memalign(alignment, size);
  note_allocation<Op::aligned>(seen, size, block, log2_of(alignment));
  return block;
}

RECORD_EXPORT void* aligned_alloc(std::size_t alignment, std::size_t size) {
  const Counted counted;
  const Place seen = place();
  void* const block = g_next.aligned_alloc(alignment, size);
  note_allocation<Op::aligned>(seen, size, block, log2_of(alignment));
  return block;
}

RECORD_EXPORT int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  const Counted counted;
  const Place seen = place();
  const int failure = g_next.posix_memalign(result, alignment, size);
  note_allocation<Op::aligned>(seen, size, failure == 0 ? *result : nullptr, log2_of(alignment));
  return failure;
}

RECORD_EXPORT void* valloc(std::size_t size) {
  const Counted counted;
  const Place seen = place();
  void* const block = g_next.valloc(size);
  note_allocation<Op::aligned>(seen, size, block, log2_of(static_cast<std::size_t>(getpagesize())));
  return block;
}

RECORD_EXPORT void* pvalloc(std::size_t size) {
  const Counted counted;
  const Place seen = place();
  void* const block = g_next.pvalloc(size);
  note_allocation<Op::aligned>(seen, size, block, log2_of(static_cast<std::size_t>(getpagesize())));
  return block;
}

RECORD_EXPORT void free_sized(void* block, std::size_t size) {
  const Counted counted;
  if (block == nullptr || is_early(block)) return;
  note_free(block, size);
  g_next.free_sized(block, size);
}

RECORD_EXPORT void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) {
  const Counted counted;
  if (block == nullptr || is_early(block)) return;
  note_free(block, size);
  g_next.free_aligned_sized(block, alignment, size);
}

RECORD_EXPORT std::size_t malloc_usable_size(void* block) {
  if (block != nullptr && is_early(block)) return early_size(block);
  return g_next.malloc_usable_size(block);
}

RECORD_EXPORT int dlclose(void* library) {
  const int result = g_next.dlclose(library);
  if (result == 0) note_unloading();
  return result;
}

RECORD_EXPORT int fork() {
  const int child = g_next.fork();
  if (child > 0) {
    const int saved = errno;
    coffer::trace::Record record;
    record.op = Op::fork;
    record.a = static_cast<u64>(child);
    record.time = stamp_after();
    record_event(record);
    errno = saved;
  }
  return child;
}
