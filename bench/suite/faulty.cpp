// SPDX-License-Identifier: MIT
// An allocator with a fault, to be preloaded: does a program notice? What it gives is never used twice, but every
// FAULTY_EVERY-th block lies on the one before it (FAULTY_KIND=overlap), loses what realloc should keep (realloc) or
// is not zero (calloc). Otherwise it works, so that a run with FAULTY_EVERY=0 is a good one.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr size_t kArena = size_t{64} << 30, kHeader = 16;

std::atomic<uintptr_t> next{0}, end{0};
std::atomic<size_t> count{0};
thread_local uintptr_t last;  // of this thread, large enough for the next one too

const char* kind() {
  const char* value = getenv("FAULTY_KIND");
  return value == nullptr ? "overlap" : value;
}

bool is_turn(const char* which) {
  static size_t every = [] {
    const char* value = getenv("FAULTY_EVERY");
    return value == nullptr ? size_t{0} : strtoull(value, nullptr, 10);
  }();
  if (every == 0 || strcmp(kind(), which) != 0) return false;
  return count.fetch_add(1, std::memory_order_relaxed) % every == every - 1;
}

void make_arena() {
  if (end.load() != 0) return;
  void* memory = mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) _exit(99);
  uintptr_t expected = 0;
  // The first thread's arena counts; others can only come later, since starting one allocates.
  if (next.compare_exchange_strong(expected, reinterpret_cast<uintptr_t>(memory))) {
    end.store(reinterpret_cast<uintptr_t>(memory) + kArena);
  }
}

size_t& size_of(void* block) { return *reinterpret_cast<size_t*>(static_cast<char*>(block) - kHeader); }

void* take(size_t size, size_t alignment) {
  make_arena();
  uintptr_t place = next.fetch_add(size + alignment + 2 * kHeader);
  if (place + size + alignment + 2 * kHeader > end.load()) _exit(99);
  place = (place + kHeader + alignment - 1) / alignment * alignment;
  void* block = reinterpret_cast<void*>(place);
  size_of(block) = size;
  return block;
}

}  // namespace

extern "C" {

void* malloc(size_t size) {
  uintptr_t before = last;
  if (before != 0 && size_of(reinterpret_cast<void*>(before)) >= size && is_turn("overlap")) {
    return reinterpret_cast<void*>(before);
  }
  void* block = take(size, 16);
  last = reinterpret_cast<uintptr_t>(block);
  return block;
}

void free(void*) {}

void* calloc(size_t number, size_t size) {
  // Memory of the kernel is zero and none is used twice.
  void* block = take(number * size, 16);
  if (number * size > 0 && is_turn("calloc")) static_cast<char*>(block)[0] = 1;
  return block;
}

void* realloc(void* old, size_t size) {
  void* block = take(size, 16);
  if (old == nullptr || is_turn("realloc")) return block;
  size_t before = size_of(old);
  return memcpy(block, old, before < size ? before : size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = take(size, alignment);
  return 0;
}
void* aligned_alloc(size_t alignment, size_t size) { return take(size, alignment); }
void* memalign(size_t alignment, size_t size) { return take(size, alignment); }
size_t malloc_usable_size(void* block) { return block == nullptr ? 0 : size_of(block); }
}
