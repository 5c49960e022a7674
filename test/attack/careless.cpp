// SPDX-License-Identifier: MIT
// An allocator that checks nothing and hands out at once what was freed last: under it the oracle has to see harm
// (test_corpus.py). Sizes are rounded up to powers of two; the class stands in front of the block.
#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr std::size_t kHead = 16;
constexpr std::size_t kClasses = 48;
constexpr std::size_t kReserved = std::size_t{1} << 40;

struct Free {
  Free* next;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Free* lists[kClasses];
char* top = nullptr;

std::size_t class_of(std::size_t size) {
  std::size_t number = 4;
  while ((std::size_t{1} << number) < size) ++number;
  return number;
}

std::size_t* head_of(void* block) { return reinterpret_cast<std::size_t*>(static_cast<char*>(block) - kHead); }

void* take(std::size_t size, std::size_t alignment) {
  pthread_mutex_lock(&lock);
  const std::size_t number = class_of(size);
  char* result = reinterpret_cast<char*>(lists[number]);
  if (result != nullptr && reinterpret_cast<std::uintptr_t>(result) % alignment == 0) {
    lists[number] = lists[number]->next;
  } else {
    if (top == nullptr) {
      top = static_cast<char*>(
          mmap(nullptr, kReserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    const std::uintptr_t start = (reinterpret_cast<std::uintptr_t>(top) + kHead + alignment - 1) & ~(alignment - 1);
    result = reinterpret_cast<char*>(start);
    top = result + (std::size_t{1} << number);
    *head_of(result) = number;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) { return take(size, kHead); }

void free(void* block) {
  if (block == nullptr) return;
  pthread_mutex_lock(&lock);
  Free*& list = lists[*head_of(block) % kClasses];
  static_cast<Free*>(block)->next = list;
  list = static_cast<Free*>(block);
  pthread_mutex_unlock(&lock);
}

void* calloc(std::size_t count, std::size_t size) {
  void* block = malloc(count * size);
  memset(block, 0, count * size);
  return block;
}

void* realloc(void* block, std::size_t size) {
  void* result = malloc(size);
  if (block != nullptr) {
    const std::size_t old = std::size_t{1} << *head_of(block) % kClasses;
    memcpy(result, block, old < size ? old : size);
    free(block);
  }
  return result;
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return take(size, alignment < kHead ? kHead : alignment);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  *result = aligned_alloc(alignment, size);
  return 0;
}

}  // extern "C"
