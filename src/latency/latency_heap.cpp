// SPDX-License-Identifier: MIT
// coffer_heap_create and its kin: coffer-rt (rt/, docs/design/rt.md) over a region that is in memory before the first
// call and stays there. No call but create and destroy asks anything of the kernel, save where two threads meet.
//
//   region:  | guard page | struct coffer_heap | coffer-rt's state and blocks ... | guard page |
//
// coffer-rt bounds the instructions of a call; what is left to make a call late is the kernel. A page fault: all pages
// are locked or, where the process may not lock, touched. A system call: there is none. A lock whose holder does not
// run: the mutex has priority inheritance, and is a compare-and-swap while nobody waits.
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/bits.hpp"
#include "coffer/coffer.h"
#include "coffer/coffer_rt.h"
#include "os/os.hpp"

struct coffer_heap {
  struct coffer_rt* blocks;
  void* reservation;  // the first guard page
  size_t reserved;    // bytes, guard pages included
  struct coffer_heap_options options;
  pthread_mutex_t mutex;  // not used if options.single_thread
  struct coffer_heap* next;
  struct coffer_heap* previous;
};

namespace coffer::latency {

namespace {

// All heaps, for fork: it waits for the calls under way, so that the child's copies are whole.
pthread_mutex_t g_heaps_mutex = PTHREAD_MUTEX_INITIALIZER;
struct coffer_heap* g_heaps;  // under g_heaps_mutex
bool g_forks_are_seen;        // under g_heaps_mutex

constexpr usize kHeaderBytes = round_up(sizeof(struct coffer_heap), 64);

// false: this kernel or this C library has no mutex with priority inheritance.
bool make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  if (pthread_mutexattr_init(&attributes) != 0) return false;
  const bool made = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0 &&
                    pthread_mutex_init(&mutex, &attributes) == 0;
  pthread_mutexattr_destroy(&attributes);
  return made;
}

class Guard {
 public:
  explicit Guard(struct coffer_heap* heap) : heap_(heap) {
    if (!heap_->options.single_thread) pthread_mutex_lock(&heap_->mutex);
  }
  ~Guard() {
    if (!heap_->options.single_thread) pthread_mutex_unlock(&heap_->mutex);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  struct coffer_heap* heap_;
};

void fork_prepare() {
  pthread_mutex_lock(&g_heaps_mutex);
  for (struct coffer_heap* heap = g_heaps; heap != nullptr; heap = heap->next) {
    if (!heap->options.single_thread) pthread_mutex_lock(&heap->mutex);
  }
}

char* first_page(const struct coffer_heap* heap) { return static_cast<char*>(heap->reservation) + os::page_size(); }

usize page_bytes(const struct coffer_heap* heap) { return heap->reserved - 2 * os::page_size(); }

// fork has made all pages the child's, too, locked or not, and the next write to each would fault and copy it. So they
// are copied here, not in a thread that must not wait; after the mutexes, since such a thread loses less by a fault or
// two than by waiting for all of the copies. Where memory does not suffice for them, the faults remain.
void fork_parent() {
  for (struct coffer_heap* heap = g_heaps; heap != nullptr; heap = heap->next) {
    if (!heap->options.single_thread) pthread_mutex_unlock(&heap->mutex);
  }
  for (struct coffer_heap* heap = g_heaps; heap != nullptr; heap = heap->next) {
    os::populate(first_page(heap), page_bytes(heap));
  }
  pthread_mutex_unlock(&g_heaps_mutex);
}

// The mutexes' holder is a thread of the parent, by the kernel's number: they cannot be unlocked here, but made anew,
// which needs no memory.
void fork_child() {
  for (struct coffer_heap* heap = g_heaps; heap != nullptr; heap = heap->next) {
    if (!heap->options.single_thread) COFFER_ASSERT(make_mutex(heap->mutex));
  }
  pthread_mutex_unlock(&g_heaps_mutex);
}

// 0, or the reason why not.
int enter(struct coffer_heap* heap) {
  pthread_mutex_lock(&g_heaps_mutex);
  if (!g_forks_are_seen) g_forks_are_seen = os::on_fork(&fork_prepare, &fork_parent, &fork_child);
  const bool entered = g_forks_are_seen;
  if (entered) {
    heap->previous = nullptr;
    heap->next = g_heaps;
    if (g_heaps != nullptr) g_heaps->previous = heap;
    g_heaps = heap;
  }
  pthread_mutex_unlock(&g_heaps_mutex);
  return entered ? 0 : ENOMEM;
}

void leave(struct coffer_heap* heap) {
  pthread_mutex_lock(&g_heaps_mutex);
  if (heap->next != nullptr) heap->next->previous = heap->previous;
  (heap->previous != nullptr ? heap->previous->next : g_heaps) = heap->next;
  pthread_mutex_unlock(&g_heaps_mutex);
}

// Makes the heap in [memory, memory + bytes), which is writable. 0, or the reason why not, and then nothing is left of
// it but what was written.
int make(char* memory, usize bytes, const struct coffer_heap_options& options, struct coffer_heap** made) {
  const bool huge = options.huge_pages != 0;
  os::advise_huge_pages(memory, bytes, huge ? os::HugePages::allow : os::HugePages::forbid);
  const int reason = os::pin(memory, bytes);
  if (reason != 0) {
    if (!options.allow_unlocked) return reason;
    if (!os::populate(memory, bytes)) return ENOMEM;
  }
  auto* const heap = reinterpret_cast<struct coffer_heap*>(memory);
  heap->reservation = memory - os::page_size();
  heap->reserved = bytes + 2 * os::page_size();
  heap->options = options;
  struct coffer_rt_options rt = {};
  rt.min_block = options.min_block;
  rt.alignment = options.alignment;
  heap->blocks = coffer_rt_init(memory + kHeaderBytes, bytes - kHeaderBytes, &rt);
  if (heap->blocks == nullptr) return EINVAL;
  if (!options.single_thread && !make_mutex(heap->mutex)) return ENOTSUP;
  const int refused = enter(heap);
  if (refused != 0) return refused;
  *made = heap;
  return 0;
}

void* or_no_memory(void* block) {
  if (block == nullptr) errno = ENOMEM;
  return block;
}

}  // namespace

extern "C" {

COFFER_EXPORT struct coffer_heap* coffer_heap_create(size_t bytes, const struct coffer_heap_options* options) noexcept {
  static constexpr struct coffer_heap_options kDefaults = {};
  const usize page = os::page_size();
  usize whole;
  if (bytes == 0 || !checked_add(bytes, kHeaderBytes + 3 * page, &whole) || whole > PTRDIFF_MAX) {
    errno = bytes == 0 ? EINVAL : ENOMEM;
    return nullptr;
  }
  const usize reserved = round_down(whole, page);
  char* const reservation = static_cast<char*>(os::reserve(reserved, page));
  if (reservation == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  char* const memory = reservation + page;
  const usize length = reserved - 2 * page;
  struct coffer_heap* heap = nullptr;
  const int reason =
      os::commit(memory, length) ? make(memory, length, options != nullptr ? *options : kDefaults, &heap) : ENOMEM;
  if (reason != 0) {
    os::release(reservation, reserved);
    errno = reason;
    return nullptr;
  }
  os::name_mapping(memory, length, "coffer: latency heap");
  return heap;
}

COFFER_EXPORT void coffer_heap_destroy(struct coffer_heap* heap) noexcept {
  if (heap == nullptr) return;
  leave(heap);
  if (!heap->options.single_thread) pthread_mutex_destroy(&heap->mutex);
  os::release(heap->reservation, heap->reserved);
}

COFFER_EXPORT void* coffer_heap_malloc(struct coffer_heap* heap, size_t size) noexcept {
  Guard guard(heap);
  return or_no_memory(coffer_rt_alloc(heap->blocks, size));
}

COFFER_EXPORT void* coffer_heap_calloc(struct coffer_heap* heap, size_t count, size_t size) noexcept {
  usize bytes;
  if (!checked_multiply(count, size, &bytes)) return or_no_memory(nullptr);
  void* const block = coffer_heap_malloc(heap, bytes);
  // Not within the lock: it takes time in proportion to the block, and the block is the caller's already.
  return block != nullptr ? memset(block, 0, bytes) : nullptr;
}

COFFER_EXPORT void* coffer_heap_aligned_alloc(struct coffer_heap* heap, size_t alignment, size_t size) noexcept {
  if (!is_power_of_two(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  Guard guard(heap);
  return or_no_memory(coffer_rt_alloc_aligned(heap->blocks, alignment, size));
}

COFFER_EXPORT void* coffer_heap_realloc(struct coffer_heap* heap, void* block, size_t size) noexcept {
  Guard guard(heap);
  if (block != nullptr && coffer_rt_usable_size(heap->blocks, block) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  return or_no_memory(coffer_rt_realloc(heap->blocks, block, size));
}

COFFER_EXPORT int coffer_heap_free(struct coffer_heap* heap, void* block) noexcept {
  Guard guard(heap);
  return coffer_rt_free(heap->blocks, block) == COFFER_RT_OK ? 0 : EINVAL;
}

COFFER_EXPORT size_t coffer_heap_usable_size(struct coffer_heap* heap, const void* block) noexcept {
  Guard guard(heap);
  return coffer_rt_usable_size(heap->blocks, block);
}

COFFER_EXPORT size_t coffer_heap_largest_free(struct coffer_heap* heap) noexcept {
  Guard guard(heap);
  return coffer_rt_largest_free(heap->blocks);
}

COFFER_EXPORT int coffer_heap_info(struct coffer_heap* heap, struct coffer_heap_info* info, size_t size) noexcept {
  if (heap == nullptr || info == nullptr || size == 0) return EINVAL;
  struct coffer_rt_stats now;
  {
    Guard guard(heap);
    coffer_rt_stats(heap->blocks, &now);
  }
  struct coffer_heap_info all = {};
  all.resident = page_bytes(heap);
  all.bytes = now.heap_bytes;
  all.live = now.live_bytes;
  all.live_blocks = now.live_blocks;
  all.largest_free = now.largest_free;
  all.alignment = now.alignment;
  memset(info, 0, size);
  memcpy(info, &all, size < sizeof all ? size : sizeof all);
  return 0;
}

COFFER_EXPORT size_t coffer_heap_check(struct coffer_heap* heap) noexcept {
  Guard guard(heap);
  return coffer_rt_check(heap->blocks) == COFFER_RT_OK ? 0 : 1;
}

}  // extern "C"

}  // namespace coffer::latency
