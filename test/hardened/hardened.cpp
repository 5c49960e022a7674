// SPDX-License-Identifier: MIT
// Crimes against the hardened build, and what it promises: hardened CASE SIZE. Prints the address that a report has to
// name, and "end" where the process goes on.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "coffer/coffer.h"

// Weak: preloaded, or linked in.
#pragma weak coffer_check

// As clang 22 calls them.
extern "C" {
void* __alloc_token_malloc(std::size_t size, std::size_t token) __attribute__((weak));
void* __alloc_token_calloc(std::size_t count, std::size_t size, std::size_t token) __attribute__((weak));
void* __alloc_token_realloc(void* block, std::size_t size, std::size_t token) __attribute__((weak));
void* __alloc_token__Znwm(std::size_t size, std::size_t token) __attribute__((weak));
void* __alloc_token_0_malloc(std::size_t size) __attribute__((weak));
void* __alloc_token_1_malloc(std::size_t size) __attribute__((weak));
}

namespace {

template <class T>
T* hide(T* block) {
  asm volatile("" : "+r"(block));
  return block;
}

char* take(std::size_t size) { return hide(static_cast<char*>(malloc(size))); }

void crime(const void* address) {
  printf("address %p\n", address);
  fflush(stdout);
}

void expect(bool holds, const char* what) {
  if (holds) return;
  printf("not true: %s\n", what);
  fflush(stdout);
  _exit(1);
}

bool is_zero(const char* block, std::size_t size) {
  return std::all_of(block, block + size, [](char byte) { return byte == 0; });
}

// Blocks are freed until what was freed before has left every quarantine, and taken.
void go_on(std::size_t size) {
  for (int i = 0; i < 20'000; ++i) free(take(size));
  std::vector<char*> blocks(20'000);
  for (char*& block : blocks) block = take(size);
  for (char* block : blocks) free(block);
}

void overflow(std::size_t size) {
  char* block = take(size);
  crime(block);
  block[size] ^= 1;
  free(block);
}

// Into what the class has more than was asked for, past the guard.
void overflow_far(std::size_t size) {
  char* block = take(size);
  crime(block);
  block[size + 20] ^= 1;
  free(block);
}

void overflow_by_zeros(std::size_t size) {
  char* block = take(size);
  memset(block, 1, size);
  crime(block);
  memset(block + size, 0, 40);
  free(block);
}

// Of neighbours the second is overrun from behind, or what is free there.
void underflow(std::size_t size) {
  std::vector<char*> blocks(1000);
  for (char*& block : blocks) block = take(size);
  std::sort(blocks.begin(), blocks.end());
  crime(blocks[499]);
  blocks[500][-1] ^= 1;
  for (char* block : blocks) free(block);
}

void checked_overflow(std::size_t size) {
  expect(coffer_check() == 0, "nothing is wrong at first");
  char* block = take(size);
  block[size] ^= 1;
  crime(block);
  printf("violations %zu\n", coffer_check());
}

void checked_write_after_free(std::size_t size) {
  char* block = take(size);
  free(block);
  expect(coffer_check() == 0, "nothing is wrong at first");
  block[size / 2] = 1;
  crime(block);
  printf("violations %zu\n", coffer_check());
}

void write_after_free(std::size_t size) {
  char* block = take(size);
  free(block);
  crime(block);
  block[size - 1] = 1;
  go_on(size);
}

void double_free(std::size_t size) {
  char* block = take(size);
  free(block);
  crime(block);
  free(block);
}

void late_double_free(std::size_t size) {
  char* block = take(size);
  free(block);
  for (int i = 0; i < 300; ++i) free(take(size));
  crime(block);
  free(block);
}

void free_by_stranger(std::size_t size) {
  char* block = take(size);
  pthread_t thread;
  const auto body = [](void* argument) -> void* {
    free(argument);
    return nullptr;
  };
  pthread_create(&thread, nullptr, body, block);
  pthread_join(thread, nullptr);
  crime(block);
  free(block);
}

void realloc_of_freed(std::size_t size) {
  char* block = take(size);
  free(block);
  crime(block);
  expect(hide(realloc(block, size + 1)) == nullptr, "a report");
}

void sized_delete(std::size_t size) {
  void* block = hide(::operator new(size));
  crime(block);
  ::operator delete(block, size - 1);
}

void never_handed_out(std::size_t size) {
  std::vector<char*> blocks(2);
  for (char*& block : blocks) block = take(size);
  const std::size_t step = size + 8 <= 32 ? 32 : (size + 8 + 15) / 16 * 16;
  char* const guess = blocks[0] + step == blocks[1] ? blocks[0] - step : blocks[0] + step;
  crime(guess);
  free(guess);
}

// --- Large blocks and those of size 0: a fault. ---

void read_byte(const char* at) {
  crime(at);
  const volatile char* byte = at;
  static_cast<void>(*byte);
}

std::size_t page_end(std::size_t size) { return (size + 4095) / 4096 * 4096; }

void behind_large(std::size_t size) { read_byte(take(size) + page_end(size)); }
void before_large(std::size_t size) { read_byte(take(size) - 1); }
void after_large(std::size_t size) {
  char* block = take(size);
  memset(block, 1, size);
  free(block);
  read_byte(block + size / 2);
}
void behind_grown(std::size_t size) {
  char* block = take(size);
  for (int i = 1; i <= 20; ++i) block = static_cast<char*>(hide(realloc(block, size + i * std::size_t{10'000})));
  read_byte(block + page_end(size + 200'000));
}
void behind_aligned(std::size_t size) {
  read_byte(static_cast<char*>(hide(aligned_alloc(1 << 16, size))) + page_end(size));
}
// Ranges that rested and are used again have new fences.
void behind_reused(std::size_t size) {
  for (int i = 0; i < 200; ++i) {
    char* block = take(size + i % 7 * std::size_t{20'000});
    memset(block, 1, size);
    free(block);
  }
  read_byte(take(size) + page_end(size));
}
void before_reused(std::size_t size) {
  for (int i = 0; i < 200; ++i) free(take(size + i % 7 * std::size_t{20'000}));
  read_byte(take(size) - 1);
}
void nothing(std::size_t) { read_byte(take(0)); }
void nothing_twice(std::size_t) {
  char* block = take(0);
  free(block);
  crime(block);
  free(block);
}

// --- What it promises. ---

void exact_size(std::size_t) {
  for (std::size_t size = 0; size < 30'000; size += 1 + size / 7) {
    char* block = take(size);
    expect(malloc_usable_size(block) == size, "the usable size is what was asked for");
    for (const std::size_t next : {size + 1, size + 9, 2 * size + 20, size / 2 + 1}) {
      block = static_cast<char*>(hide(realloc(block, next)));
      expect(malloc_usable_size(block) == next, "also after realloc");
      memset(block, 1, next);
    }
    free(block);
  }
  expect(coffer_check() == 0, "nothing is wrong");
}

void zero_content(std::size_t) {
  for (const std::size_t size : {1, 24, 25, 100, 1000, 5000, 30'000, 60'000, 100'000, 2'000'000}) {
    for (int round = 0; round < 200; ++round) {
      char* block = take(size);
      expect(is_zero(block, size), "a block is zero");
      memset(block, 0xa5, size);
      block = static_cast<char*>(hide(realloc(block, size + 50)));
      expect(is_zero(block + size, 50), "also where it grows");
      expect(block[size - 1] == static_cast<char>(0xa5), "what was there stays");
      memset(block, 0xa5, size + 50);
      free(block);
    }
  }
}

// Large blocks of many lengths and alignments, each used again and again, never by two.
void large_again(std::size_t) {
  struct Live {
    char* block;
    std::size_t size, at;
  };
  unsigned long state = 1;
  std::vector<Live> live(24);
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    auto& [block, size, at] = live[(state >> 33) % live.size()];
    if (block != nullptr) expect(block[0] == 1 && block[at] == 1 && block[size - 1] == 1, "content stays");
    free(block);
    const std::size_t alignment = std::size_t{16} << (state >> 40) % 13;
    size = 70'000 + (state >> 44) % 600'000;
    at = (state >> 20) % size;
    block = static_cast<char*>(i % 3 == 0 ? hide(calloc(1, size)) : hide(aligned_alloc(alignment, size)));
    expect(i % 3 == 0 || reinterpret_cast<uintptr_t>(block) % alignment == 0, "it is aligned");
    expect(block[0] == 0 && block[at] == 0 && block[size - 1] == 0, "it is zero");
    block[0] = block[at] = block[size - 1] = 1;
  }
  expect(coffer_check() == 0, "nothing is wrong");
}

// Spans change their class, and so do the places of canaries.
void changing_classes(std::size_t) {
  unsigned long state = 1;
  std::vector<std::pair<char*, std::size_t>> live(3000);
  for (int i = 0; i < 400'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    auto& [block, size] = live[(state >> 33) % live.size()];
    if (block != nullptr) expect(block[0] == 1 && block[size - 1] == 1, "content stays");
    free(block);
    // Phases of small and of larger blocks.
    size = 1 + (state >> 40) % ((i / 20'000) % 2 == 0 ? 300 : 9000);
    block = take(size);
    expect(is_zero(block, size), "a block is zero");
    memset(block, 1, size);
    if (i % 100'000 == 0) malloc_trim(0);
  }
  expect(coffer_check() == 0, "nothing is wrong");
}

void quarantine(std::size_t size) {
  int soonest = 1 << 30;
  for (int round = 0; round < 200; ++round) {
    char* block = take(size);
    free(block);
    for (int i = 0; i < 5000; ++i) {
      char* next = take(size);
      free(next);
      if (next != block) continue;
      soonest = std::min(soonest, i);
      break;
    }
  }
  printf("soonest %d\n", soonest);
}

// How soon the place of a large block is another's.
void large_quarantine(std::size_t size) {
  int soonest = 1 << 30;
  for (int round = 0; round < 20; ++round) {
    char* block = take(size);
    free(block);
    for (int i = 0; i < 100; ++i) {
      char* next = take(size);
      free(next);
      if (next - block >= static_cast<std::ptrdiff_t>(size) || block - next >= static_cast<std::ptrdiff_t>(size))
        continue;
      soonest = std::min(soonest, i);
      break;
    }
  }
  printf("soonest %d\n", soonest);
}

void order(std::size_t size) {
  std::vector<char*> blocks(2000);
  for (char*& block : blocks) block = take(size);
  std::size_t ascending = 0;
  for (std::size_t i = 1; i < blocks.size(); ++i) ascending += blocks[i] > blocks[i - 1];
  printf("ascending %zu\n", ascending * 100 / blocks.size());
}

// Of blocks that were freed in the order of their addresses, how many come back beside the one that came before: as in
// that order, or in the reverse.
// Of blocks that grow, some are samples with guards (COFFER_CONF), of any number of bytes.
void growth(std::size_t) {
  for (std::size_t more = 0; more < 64; ++more) {
    char* block = take(70'000 + more);
    for (std::size_t size = 150'001 + more; size < 900'000; size = size * 3 / 2) {
      block = static_cast<char*>(realloc(block, size));
      memset(block, 'x', size);
    }
    free(block);
  }
}

void reuse(std::size_t size) {
  std::vector<char*> blocks(2000);
  for (char*& block : blocks) block = take(size);
  std::sort(blocks.begin(), blocks.end());
  for (char* block : blocks) free(block);
  std::size_t beside = 0;
  std::ptrdiff_t before = -10;
  for (std::size_t i = 0; i < blocks.size() / 2; ++i) {
    char* const block = take(size);
    const std::ptrdiff_t at = std::lower_bound(blocks.begin(), blocks.end(), block) - blocks.begin();
    beside += at - before == 1 || before - at == 1;
    before = at;
  }
  printf("beside %zu\n", beside * 200 / blocks.size());
}

void children(std::size_t size) {
  std::vector<char*> blocks(500);
  for (char*& block : blocks) block = take(size);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (char* block : blocks) free(block);
      for (int k = 0; k < 1000; ++k) free(take(size + static_cast<std::size_t>(k)));
      _exit(coffer_check() == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(status == 0, "the child ends well");
    free(blocks[static_cast<std::size_t>(i)]);
    blocks[static_cast<std::size_t>(i)] = take(size);
  }
}

// Blocks of pointers and of bytes, by all ways to them, and which slots of 32 KiB have any.
void partitions(std::size_t) {
  constexpr std::size_t kPointers = ~std::size_t{0} / 2 + 1;
  std::vector<std::pair<char*, int>> blocks;
  const auto add = [&](void* block, int kind) { blocks.emplace_back(static_cast<char*>(block), kind); };
  for (std::size_t i = 0; i < 20'000; ++i) {
    const std::size_t size = 1 + i % 2000;
    add(__alloc_token_malloc(size, i % 1000), 1);
    add(__alloc_token_malloc(size, kPointers + i % 1000), 2);
    add(__alloc_token_calloc(1, size, kPointers), 2);
    add(__alloc_token__Znwm(size, kPointers), 2);
    add(__alloc_token_0_malloc(size), 1);
    add(__alloc_token_1_malloc(size), 2);
    add(malloc(size), 1);
    // realloc keeps the kind; also the plain one.
    add(realloc(__alloc_token_1_malloc(size), 3 * size), 2);
    add(__alloc_token_realloc(nullptr, size, kPointers), 2);
    if (i % 3 == 0) {
      free(blocks[i * 2].first);
      blocks[i * 2].first = nullptr;
    }
  }
  std::vector<std::pair<uintptr_t, int>> slots;
  for (const auto& [block, kind] : blocks) {
    if (block != nullptr) slots.emplace_back(reinterpret_cast<uintptr_t>(block) >> 15, kind);
  }
  std::sort(slots.begin(), slots.end());
  for (std::size_t i = 1; i < slots.size(); ++i) {
    const bool shared = slots[i].first == slots[i - 1].first && slots[i].second != slots[i - 1].second;
    expect(!shared, "no slot has blocks of both kinds");
  }
  expect(coffer_check() == 0, "nothing is wrong");
  for (const auto& [block, kind] : blocks) free(block);
  expect(coffer_check() == 0, "nothing is wrong afterwards");
}

struct Case {
  const char* name;
  void (*run)(std::size_t size);
};
constexpr Case kCases[] = {
    {"overflow", overflow},
    {"overflow_far", overflow_far},
    {"overflow_by_zeros", overflow_by_zeros},
    {"underflow", underflow},
    {"checked_overflow", checked_overflow},
    {"checked_write_after_free", checked_write_after_free},
    {"write_after_free", write_after_free},
    {"double_free", double_free},
    {"late_double_free", late_double_free},
    {"free_by_stranger", free_by_stranger},
    {"realloc_of_freed", realloc_of_freed},
    {"sized_delete", sized_delete},
    {"never_handed_out", never_handed_out},
    {"behind_large", behind_large},
    {"before_large", before_large},
    {"after_large", after_large},
    {"behind_grown", behind_grown},
    {"behind_aligned", behind_aligned},
    {"behind_reused", behind_reused},
    {"before_reused", before_reused},
    {"nothing", nothing},
    {"nothing_twice", nothing_twice},
    {"exact_size", exact_size},
    {"zero_content", zero_content},
    {"changing_classes", changing_classes},
    {"large_again", large_again},
    {"quarantine", quarantine},
    {"large_quarantine", large_quarantine},
    {"order", order},
    {"reuse", reuse},
    {"growth", growth},
    {"children", children},
    {"partitions", partitions},
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  setvbuf(stdout, nullptr, _IONBF, 0);  // its buffer would be a block, and of 4096 bytes the crime's own
  for (const Case& one : kCases) {
    if (strcmp(one.name, arguments[1]) != 0) continue;
    one.run(strtoul(arguments[2], nullptr, 10));
    puts("end");
    return 0;
  }
  return 2;
}
