// SPDX-License-Identifier: MIT
// A library that the cases of dlopen.cpp load and unload: it allocates when loaded, in threads, in thread-local
// objects, and when unloaded.
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Loaded {
  Loaded() : block(malloc(3000)), text(1000, 'x') { memset(block, 1, 3000); }
  ~Loaded() {
    free(block);
    free(malloc(70'000));
  }
  void* block;
  std::string text;
};
Loaded loaded;

struct PerThread {
  PerThread() : block(malloc(500)) { memset(block, 2, 500); }
  ~PerThread() {
    free(block);
    free(malloc(900));
  }
  void* block;
};
thread_local PerThread per_thread;

void* work(void*) {
  void* blocks[100];
  for (std::size_t i = 0; i < 100; ++i) blocks[i] = malloc(i * i);
  per_thread.block = realloc(per_thread.block, 2000);
  for (void* block : blocks) free(block);
  return nullptr;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* plugin_allocate(std::size_t size) {
  void* block = malloc(size);
  memset(block, 3, size);
  return block;
}

__attribute__((visibility("default"))) void plugin_touch_thread_local() {
  per_thread.block = realloc(per_thread.block, 4000);
}

__attribute__((visibility("default"))) void plugin_run_threads() {
  pthread_t threads[2];
  for (pthread_t& thread : threads) pthread_create(&thread, nullptr, work, nullptr);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}
}
