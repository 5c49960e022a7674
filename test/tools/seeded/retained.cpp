// SPDX-License-Identifier: MIT
// Keeps memory alive in ways that `coffer retainers` tells apart: retained cache|stack|ring|local|threads|many [COUNT].
// With "wait" behind the count it says "ready" and sleeps, else it ends by returning from main.
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

// Nothing of what was called before is left on the stack.
__attribute__((noinline)) static void wipe_stack() {
  volatile char room[64 * 1024];
  for (volatile char& one : room) one = 0;
}

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "cache";
  const int many = count > 2 ? std::atoi(arguments[2]) : 1000;
  const bool waits = count > 3 && std::strcmp(arguments[3], "wait") == 0;
  if (what == "cache") {
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
  } else {
    fill_many(many);
  }
  wipe_stack();
  if (waits) {
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
  }
  return 0;
}
