// SPDX-License-Identifier: MIT
// A program on a machine that Coffer does not support (other_machine.c): all of its allocation functions work, by the C
// library's malloc; or, where there is none, malloc says so.
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>
#include <new>

namespace {

void say(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(2);
}

void check(bool good, const char* what) {
  if (good) return;
  say(what);
  _exit(1);
}

// The compiler would leave pairs out.
template <class T>
T* hide(T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

void* use(void*) {
  for (std::size_t size = 1; size < 3'000'000; size = size * 2 + 1) {
    char* block = static_cast<char*>(hide(malloc(size)));
    check(block != nullptr && malloc_usable_size(block) >= size, "malloc\n");
    memset(block, 7, size);
    block = static_cast<char*>(hide(realloc(block, size * 3)));
    check(block != nullptr && block[size - 1] == 7, "realloc\n");
    free(block);
    const char* zeroed = static_cast<const char*>(hide(calloc(size, 2)));
    check(zeroed != nullptr && zeroed[0] == 0 && zeroed[2 * size - 1] == 0, "calloc\n");
    free(const_cast<char*>(zeroed));
    void* aligned = hide(aligned_alloc(4096, size));
    check(aligned != nullptr && reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0, "aligned_alloc\n");
    free(aligned);
    operator delete(hide(operator new(size)));
    operator delete(hide(operator new(size)), size);
    operator delete(hide(operator new(size, std::align_val_t{64})), std::align_val_t{64});
    operator delete(hide(operator new(size, std::nothrow)));
  }
  return nullptr;
}

}  // namespace

int main() {
  void* first = hide(malloc(10));
  if (first == nullptr) {
    say("null\n");
    return 0;
  }
  free(first);
  free(nullptr);
  check(realloc(hide(malloc(8)), 0) == nullptr, "realloc to nothing\n");
  pthread_t threads[4];
  for (pthread_t& thread : threads) check(pthread_create(&thread, nullptr, &use, nullptr) == 0, "thread\n");
  use(nullptr);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  say("good\n");
}
