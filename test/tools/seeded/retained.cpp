// SPDX-License-Identifier: MIT
// Keeps memory alive in ways that `coffer retainers` tells apart: retained [WHAT [COUNT [wait]]], where WHAT is cache,
// stack, ring, local, threads, odd, nap or many. With "wait" it says "ready" and sleeps, else it ends by returning from
// main; nap is the cache, and sleeps for some seconds before its end.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Page {
  char text[1000];
};

class Cache {
 public:
  __attribute__((noinline)) void insert(int key) {
    auto page = std::make_unique<Page>();
    std::memset(page->text, key, sizeof page->text);
    pages_.emplace(key, std::move(page));
  }

 private:
  std::unordered_map<int, std::unique_ptr<Page>> pages_;
};
static Cache g_cache;

struct Node {
  Node* next;
  char text[200];
};

__attribute__((noinline)) static Node* push(Node* list) {
  Node* node = new Node{list, {}};
  return node;
}

static volatile int g_ready;

// The list hangs on this function's frame alone.
__attribute__((noinline)) static void hold_list(int count) {
  Node* volatile list = nullptr;
  for (int i = 0; i < count; ++i) list = push(list);
  g_ready = 1;
  for (;;) pause();
}

struct Peer {
  std::shared_ptr<Peer> other;
  char text[100];
};

// A pair that holds itself, and that nobody knows any more.
__attribute__((noinline)) static void make_ring() {
  auto one = std::make_shared<Peer>();
  one->other = std::make_shared<Peer>();
  one->other->other = one;
}

static thread_local Node* t_list;

__attribute__((noinline)) static void fill_local(int count) {
  for (int i = 0; i < count; ++i) t_list = push(t_list);
}

static void* g_many;

// The least blocks there are, each pointing to the next.
__attribute__((noinline)) static void fill_many(int count) {
  for (int i = 0; i < count; ++i) {
    void** block = static_cast<void**>(std::malloc(16));
    block[0] = g_many;
    g_many = block;
  }
}

// Blocks that only memory points to which the program mapped itself, among other mappings that make a reader stumble.
__attribute__((noinline)) static void fill_odd(int count) {
  const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
  mmap(nullptr, size_t{1} << 40, both, anonymous | MAP_NORESERVE, -1, 0);
  mmap(nullptr, size_t{1} << 30, PROT_NONE, anonymous, -1, 0);
  mmap(nullptr, 4096, both, MAP_SHARED, open("/dev/zero", O_RDWR), 0);
  std::FILE* file = std::tmpfile();
  if (file == nullptr || ftruncate(fileno(file), 8192) != 0) std::abort();
  char* cut = static_cast<char*>(mmap(nullptr, 8192, both, MAP_PRIVATE, fileno(file), 0));
  *cut = 1;
  if (ftruncate(fileno(file), 4096) != 0) std::abort();
  void** own = static_cast<void**>(mmap(nullptr, 1 << 20, both, anonymous, -1, 0));
  for (int i = 0; i < count; ++i) own[i] = std::malloc(1000);
  mprotect(reinterpret_cast<char*>(own) + 8192, 4096, PROT_NONE);
}

// Nothing of what was called before is left on the stack.
__attribute__((noinline)) static void wipe_stack() {
  volatile char room[64 * 1024];
  for (volatile char& one : room) one = 0;
}

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "cache";
  const int many = count > 2 ? std::atoi(arguments[2]) : 1000;
  const bool waits = count > 3 && std::strcmp(arguments[3], "wait") == 0;
  if (what == "cache" || what == "nap") {
    for (int i = 0; i < many; ++i) g_cache.insert(i);
  } else if (what == "stack") {
    std::thread(hold_list, many).detach();
    while (!g_ready) usleep(1000);
  } else if (what == "ring") {
    for (int i = 0; i < many; ++i) make_ring();
  } else if (what == "local") {
    fill_local(many);
  } else if (what == "threads") {
    for (int i = 0; i < 100; ++i) std::thread(hold_list, many).detach();
    usleep(300 * 1000);
  } else if (what == "odd") {
    fill_odd(many);
  } else {
    fill_many(many);
  }
  wipe_stack();
  if (what == "nap") sleep(4);
  if (waits) {
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
  }
  return 0;
}
