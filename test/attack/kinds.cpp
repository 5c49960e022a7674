// SPDX-License-Identifier: MIT
// Programs of the kinds of a public suite, in our own words: attack_kinds KIND SIZE. 37 kinds, each for three sizes,
// and five of C++: 116. A program commits its crime, then frees its block and goes on. It prints "missed" at its end,
// or where it sees what it must not see; a kind is caught where the process ends without (kinds.py).
#include <alloca.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace {

std::size_t size;

template <class T>
T* hide(T* block) {
  asm volatile("" : "+r"(block));
  return block;
}

char* take(std::size_t bytes) {
  char* block = hide(static_cast<char*>(malloc(bytes)));
  if (block == nullptr) _Exit(3);
  return block;
}
void give(void* block) { free(hide(block)); }
char* at(void* block, std::ptrdiff_t offset) {
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(block) + static_cast<std::uintptr_t>(offset));
}

[[noreturn]] void missed() {
  puts("missed");
  fflush(stdout);
  _Exit(0);
}
[[noreturn]] void caught() { _Exit(0); }

void pairs(int count) {
  for (int i = 0; i < count; ++i) give(take(size));
}

// What every program does later: the same size over and over, many blocks of it, and 16 MiB of others.
[[noreturn]] void go_on() {
  static char* blocks[40'000];
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  pairs(4096);
  const std::size_t ours = kBytes / size < 4000 ? kBytes / size : 4000;
  for (std::size_t i = 0; i < ours; ++i) blocks[i] = take(size);
  for (std::size_t i = 0; i < ours; ++i) give(blocks[i]);
  std::size_t count = 0;
  for (std::size_t bytes = 0; bytes < kBytes; ++count) {
    const std::size_t next = 512 * (1 + count % 8);
    blocks[count] = take(next);
    bytes += next;
  }
  for (std::size_t i = 0; i < count; ++i) give(blocks[i]);
  missed();
}
[[noreturn]] void finish(void* block) {
  give(block);
  go_on();
}

constexpr std::ptrdiff_t kMega = 1 << 20;

void write_behind(std::ptrdiff_t distance) {
  char* block = take(size);
  *hide(at(block, static_cast<std::ptrdiff_t>(size) - 1 + distance)) ^= 'A';
  finish(block);
}
void write_before(std::ptrdiff_t distance) {
  char* block = take(size);
  *hide(at(block, -distance)) ^= 'A';
  finish(block);
}
// As many bytes as the block has, but not to its begin.
void copy_beside(std::ptrdiff_t offset) {
  static char source[256 * 1024];
  memset(source, 'B', sizeof source);
  char* block = take(size);
  memcpy(hide(at(block, offset)), hide(source), size);
  finish(block);
}

void double_free() {
  char* block = take(size);
  give(block);
  give(block);
  missed();
}
void double_free_delayed() {
  char* block = take(size);
  give(block);
  pairs(1024);
  give(block);
  missed();
}
void double_free_interleaved() {
  char* first = take(size);
  char* second = take(size);
  give(first);
  give(second);
  give(first);
  missed();
}
void double_free_and_pairs() {
  char* block = take(size);
  give(block);
  give(block);
  pairs(1 << 18);
  missed();
}
void double_free_after_one_pair() {
  char* block = take(size);
  give(block);
  char* other = take(size);
  give(block);
  give(other);
  missed();
}

void run_heap() {
#if defined(__aarch64__)
  constexpr unsigned char kReturn[] = {0xc0, 0x03, 0x5f, 0xd6};
#else
  constexpr unsigned char kReturn[] = {0xc3};
#endif
  char* block = take(size);
  memcpy(block, kReturn, sizeof kReturn);
  reinterpret_cast<void (*)()>(hide(block))();
  missed();
}
void impossible_size() {
  std::size_t bytes = ~std::size_t{0} - 1;
  asm volatile("" : "+r"(bytes));
  if (malloc(bytes) != nullptr) missed();
  caught();
}

void free_nowhere() {
  give(reinterpret_cast<void*>(std::uintptr_t{0x1337'0000}));
  missed();
}
void free_alloca() {
  give(alloca(size < 4096 ? size : 4096));
  missed();
}
void free_stack() {
  char local[64] = {};
  give(local);
  missed();
}
void free_at(std::ptrdiff_t offset) {
  give(at(take(size), offset));
  missed();
}

void place_again(std::size_t next) {
  char* block = take(size);
  give(block);
  if (take(next) == block) missed();
  caught();
}
void realloc_in_place() {
  char* block = take(8);
  char* const before = block;
  if (hide(static_cast<char*>(realloc(hide(block), 1024))) == before) missed();
  caught();
}

void read_nothing(bool frees) {
  char* block = take(0);
  const volatile char seen = *hide(block);
  static_cast<void>(seen);
  if (frees) give(block);
  missed();
}
void write_nothing(bool frees) {
  char* block = take(0);
  *hide(block) = 'A';
  if (frees) give(block);
  missed();
}

void write_after_free(int more) {
  char* block = take(size);
  give(block);
  memset(hide(block), 'A', size);
  pairs(more);
  go_on();
}
void read_after_free() {
  char* block = take(size);
  memset(block, 'A', size);
  give(block);
  for (std::size_t i = 0; i < size; ++i) {
    if (hide(block)[i] != 0) missed();
  }
  caught();
}
void read_before_written() {
  static char* blocks[4096];
  const std::size_t most = (std::size_t{64} << 20) / size;
  const std::size_t count = most < 4096 ? most : 4096;
  for (std::size_t i = 0; i < count; ++i) memset(blocks[i] = take(size), 'A', size);
  for (std::size_t i = 0; i < count; ++i) give(blocks[i]);
  const char* block = take(size);
  for (std::size_t i = 0; i < size; ++i) {
    if (block[i] != 0) missed();
  }
  caught();
}

struct Large {
  std::size_t words[9];
};

struct Kind {
  const char* name;
  void (*run)();
};
constexpr Kind kKinds[] = {
    {"overflow_1", [] { write_behind(1); }},
    {"overflow_32", [] { write_behind(32); }},
    {"overflow_1m", [] { write_behind(kMega); }},
    {"underflow_1", [] { write_before(1); }},
    {"underflow_32", [] { write_before(32); }},
    {"underflow_1m", [] { write_before(kMega); }},
    {"copy_overflow_1", [] { copy_beside(1); }},
    {"copy_overflow_32", [] { copy_beside(32); }},
    {"copy_overflow_1m", [] { copy_beside(kMega); }},
    {"copy_underflow_1", [] { copy_beside(-1); }},
    {"copy_underflow_32", [] { copy_beside(-32); }},
    {"copy_underflow_1m", [] { copy_beside(-kMega); }},
    {"double_free", double_free},
    {"double_free_delayed", double_free_delayed},
    {"double_free_interleaved", double_free_interleaved},
    {"double_free_and_pairs", double_free_and_pairs},
    {"double_free_after_one_pair", double_free_after_one_pair},
    {"run_heap", run_heap},
    {"impossible_size", impossible_size},
    {"free_nowhere", free_nowhere},
    {"free_alloca", free_alloca},
    {"free_stack", free_stack},
    {"free_near", [] { free_at(4096); }},
    {"free_far", [] { free_at(std::ptrdiff_t{1} << 30); }},
    {"free_unaligned_1", [] { free_at(1); }},
    {"free_unaligned_8", [] { free_at(8); }},
    {"place_again", [] { place_again(size); }},
    {"place_again_smaller", [] { place_again(size / 2); }},
    {"realloc_in_place", realloc_in_place},
    {"read_nothing", [] { read_nothing(false); }},
    {"read_nothing_and_free", [] { read_nothing(true); }},
    {"write_nothing", [] { write_nothing(false); }},
    {"write_nothing_and_free", [] { write_nothing(true); }},
    {"write_after_free", [] { write_after_free(0); }},
    {"write_after_free_and_pairs", [] { write_after_free(1 << 18); }},
    {"read_after_free", read_after_free},
    {"read_before_written", read_before_written},
};
// Of one size.
constexpr Kind kKindsOfCxx[] = {
    {"delete_as_larger", [] { delete hide(reinterpret_cast<Large*>(new char)); }},
    {"delete_of_array", [] { delete hide(new char[4096]); }},
    {"delete_array_of_one", [] { delete[] hide(new char); }},
    {"delete_of_strings", [] { delete hide(new std::string[4]); }},
    {"delete_array_of_string", [] { delete[] hide(new std::string); }},
};

}  // namespace

int main(int count, char** words) {
  if (count == 2 && strcmp(words[1], "--list") == 0) {
    for (const Kind& kind : kKinds) printf("%s 8 4096 262144\n", kind.name);
    for (const Kind& kind : kKindsOfCxx) printf("%s 4096\n", kind.name);
    return 0;
  }
  if (count != 3) return 2;
  size = strtoul(words[2], nullptr, 10);
  for (const Kind& kind : kKinds) {
    if (strcmp(kind.name, words[1]) == 0) kind.run();
  }
  for (const Kind& kind : kKindsOfCxx) {
    if (strcmp(kind.name, words[1]) != 0) continue;
    kind.run();
    missed();
  }
  return 2;
}
