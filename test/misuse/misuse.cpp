// SPDX-License-Identifier: MIT
// One crime a process. Each case says on stdout which address it is about to misuse, commits the crime, and says
// "survived" if it is still there; run_misuse.py looks at how the process ended and at what it wrote to stderr.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

bool says(int index, const char* word) { return argument(index) != nullptr && strcmp(argument(index), word) == 0; }

// The call that is misused: free where the argument names none.
void call(const char* name, void* pointer) {
  if (name == nullptr || strcmp(name, "free") == 0) {
    free(hide(pointer));
  } else if (strcmp(name, "realloc") == 0) {
    hide(realloc(hide(pointer), 5000));
  } else if (strcmp(name, "realloc_to_zero") == 0) {
    hide(realloc(hide(pointer), hide(std::size_t{0})));
  } else if (strcmp(name, "usable_size") == 0) {
    hide(malloc_usable_size(hide(pointer)));
  } else if (strcmp(name, "delete") == 0) {
    ::operator delete(hide(pointer));
  } else if (strcmp(name, "aligned_delete") == 0) {
    ::operator delete(hide(pointer), std::align_val_t(64));
  } else if (strcmp(name, "free_sized") == 0) {
    auto* free_sized = function<void(void*, std::size_t)>("free_sized");
    if (free_sized == nullptr) skip("free_sized is not there");
    free_sized(hide(pointer), 100);
  } else {
    FAIL("no call %s", name);
  }
}

void commit_crime(const char* name, void* pointer) {
  note("address 0x%lx", reinterpret_cast<unsigned long>(pointer));
  call(name, pointer);
  note("survived");
}

// Runs the function in a thread that has a heap of its own, or here.
void in_thread(bool other, void (*run)(void*), void* pointer) {
  if (!other) return run(pointer);
  static void (*chosen)(void*);
  chosen = run;
  const pthread_t thread = start_thread(
      [](void* given) -> void* {
        free(malloc(100));
        chosen(given);
        return nullptr;
      },
      pointer);
  pthread_join(thread, nullptr);
}

void stay_on_this_processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

constexpr int kCrowd = 64;
void* crowd[kCrowd];

// Blocks of one size, so that the span holds others and several spans are there.
void make_crowd(std::size_t size) {
  for (void*& block : crowd) {
    block = malloc(size);
    CHECK(block != nullptr);
    memset(block, 1, size < 100'000 ? size : 100'000);
  }
}

int static_bytes[1000] = {1};

void* foreign_pointer(const char* where) {
  static int* stack_place;
  if (strcmp(where, "stack") == 0) {
    static thread_local int unused;
    int* bytes = static_cast<int*>(__builtin_alloca(4096));
    stack_place = hide(bytes) + (unused + 256);
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(stack_place) & ~std::uintptr_t{15});
  }
  if (strcmp(where, "static") == 0) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(static_bytes + 400) & ~std::uintptr_t{15});
  }
  if (strcmp(where, "code") == 0) return reinterpret_cast<void*>(&foreign_pointer);
  if (strcmp(where, "mmap") == 0) {
    void* mapped = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    return static_cast<char*>(mapped) + 65'536;
  }
  if (strcmp(where, "environment") == 0) return getenv("PATH");
  if (strcmp(where, "low") == 0) return reinterpret_cast<void*>(std::uintptr_t{16});
  if (strcmp(where, "noncanonical") == 0) return reinterpret_cast<void*>(std::uintptr_t{0x4141414141414140});
  if (strcmp(where, "highest") == 0) return reinterpret_cast<void*>(~std::uintptr_t{15});
  FAIL("no place %s", where);
}

std::size_t offset_in(const char* text, std::size_t size) {
  if (strcmp(text, "half") == 0) return size / 2 / 8 * 8;
  if (strcmp(text, "last") == 0) return size - 1;
  if (strcmp(text, "second_chunk") == 0) return 2'200'000;
  return std::strtoul(text, nullptr, 0);
}

}  // namespace

// foreign PLACE [CALL]
CASE(foreign) {
  free(malloc(100));
  commit_crime(argument(1), foreign_pointer(argument(0)));
}

// The allocator has not been called before. (The C library itself may have been.)
CASE(foreign_at_first) { commit_crime(nullptr, foreign_pointer("static")); }

// interior SIZE OFFSET [CALL] [other]: every eighth block is tried to be one that starts in a later slot of its span.
CASE(interior) {
  const auto size = static_cast<std::size_t>(argument_number(0));
  make_crowd(size);
  void* victim = crowd[says(4, "late") ? kCrowd - 3 : 1];
  static const char* name;
  name = argument(2);
  in_thread(
      says(3, "other"), [](void* pointer) { commit_crime(name, pointer); },
      static_cast<char*>(victim) + offset_in(argument(1), size));
}

// A block of the given alignment, whose inside is as little a start as any other's.
CASE(interior_of_aligned) {
  void* block = aligned_alloc(static_cast<std::size_t>(argument_number(0)), 10'000);
  commit_crime(nullptr, static_cast<char*>(block) + 4096);
}

// tail SIZE: a place behind the last block of a span, found from outside: blocks of a size lie at a constant distance,
// and where the next is further away than that, but less than two distances, no block can be.
CASE(tail) {
  const auto size = static_cast<std::size_t>(argument_number(0));
  static void* blocks[20'000];
  const std::size_t count = std::min<std::size_t>(20'000, 64'000'000 / size);
  for (std::size_t i = 0; i < count; ++i) blocks[i] = malloc(size);
  std::sort(blocks, blocks + count);
  const auto place = [](std::size_t i) { return reinterpret_cast<std::uintptr_t>(blocks[i]); };
  std::size_t distance = SIZE_MAX;
  for (std::size_t i = 1; i < count; ++i) distance = std::min(distance, place(i) - place(i - 1));
  for (std::size_t i = 1; i < count; ++i) {
    const std::size_t gap = place(i) - place(i - 1);
    if (gap <= distance || gap >= 2 * distance) continue;
    commit_crime(nullptr, static_cast<char*>(blocks[i - 1]) + distance);
    return;
  }
  skip("spans of %zu bytes have no tail", size);
}

// double SIZE FIRST SECOND [alone]: who frees it first and who again, "owner" or "other". Two different others are two
// threads. alone: no other block of the size is there, so that the first free empties the span.
CASE(double_free) {
  const auto size = static_cast<std::size_t>(argument_number(0));
  void* victim = malloc(size);
  if (!says(3, "alone")) {
    make_crowd(size);
    victim = crowd[kCrowd / 2];
  }
  const bool first_other = says(1, "other");
  const bool second_other = says(2, "other");
  // What is allocated between the two frees could lie where the victim was, and the second free would be one of that.
  // So the C library allocates for its first thread now; and the threads follow each other on one processor, where each
  // takes the heap that the one before left, with its spans.
  stay_on_this_processor();
  in_thread(true, [](void*) {}, nullptr);
  note("address 0x%lx", reinterpret_cast<unsigned long>(victim));
  if (first_other && second_other) {
    in_thread(true, [](void* pointer) { free(hide(pointer)), free(hide(pointer)); }, victim);
  } else {
    in_thread(first_other, [](void* pointer) { free(hide(pointer)); }, victim);
    in_thread(second_other, [](void* pointer) { free(hide(pointer)); }, victim);
  }
  note("survived");
}

// freed SIZE CALL: realloc or malloc_usable_size of a block that was just freed.
CASE(use_of_freed) {
  make_crowd(static_cast<std::size_t>(argument_number(0)));
  void* victim = crowd[kCrowd / 2];
  free(victim);
  commit_crime(argument(1), victim);
}

// free_span SIZE [trim] [other]: all blocks were freed, of so many spans that most went back; one in the middle is
// freed again.
CASE(free_span) {
  const auto size = static_cast<std::size_t>(argument_number(0));
  static void* blocks[2'000'000];
  const std::size_t count = std::min<std::size_t>(2'000'000, 64'000'000 / size);
  for (std::size_t i = 0; i < count; ++i) blocks[i] = malloc(size);
  for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
  if (says(1, "trim")) malloc_trim(0);
  in_thread(says(2, "other"), [](void* pointer) { commit_crime(nullptr, pointer); }, blocks[count / 2]);
}

// wrong_size GIVEN: the block has 100 bytes.
CASE(wrong_size) {
  auto* free_sized = function<void(void*, std::size_t)>("free_sized");
  if (free_sized == nullptr) skip("free_sized is not there");
  void* block = malloc(100);
  note("address 0x%lx", reinterpret_cast<unsigned long>(block));
  free_sized(block, hide(static_cast<std::size_t>(argument_number(0))));
  note("survived");
}

// wrong_size_of_object GIVEN: operator delete, which knows what new was asked for: 300 bytes.
CASE(wrong_size_of_object) {
  void* block = operator new(300);
  note("address 0x%lx", reinterpret_cast<unsigned long>(block));
  operator delete(block, hide(static_cast<std::size_t>(argument_number(0))));
  note("survived");
}

// A crash reporter allocates in its handler: the report must hold no lock.
CASE(handler_of_abort_allocates) {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    exercise(200, 1);
    note("handler done");
  };
  sigaction(SIGABRT, &action, nullptr);
  make_crowd(100);
  free(crowd[5]);
  commit_crime(nullptr, crowd[5]);
}

CASE(while_others_allocate) {
  Hammer hammer(4);
  while (hammer.rounds() < 10'000) usleep(1000);
  commit_crime(nullptr, foreign_pointer("static"));
}

// As a library function that is called back in the midst of allocations: a destructor at exit.
CASE(at_exit) {
  atexit([] { commit_crime(nullptr, foreign_pointer("static")); });
  exit(0);
}

// The child of a fork commits the crime; the parent ends as the child did.
CASE(in_a_child) {
  Hammer hammer(2);
  while (hammer.rounds() < 10'000) usleep(1000);
  const pid_t child = fork();
  if (child == 0) {
    make_crowd(48);
    commit_crime(nullptr, static_cast<char*>(crowd[3]) + 16);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  hammer.stop();
  if (WIFSIGNALED(status)) raise(WTERMSIG(status));
}
