// SPDX-License-Identifier: MIT
// What every conformance and misuse program shares: named cases (one process runs one case), checks that end the
// process, and readings of the process's own memory. Nothing here calls malloc, so that what a case measures is its
// own doing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace conformance {

using Function = void (*)();

// One case of a program; cases register themselves before main and are run by name.
class Case {
 public:
  Case(const char* name, Function function);
  static const Case* find(const char* name);
  static void list();
  void run() const { function_(); }

 private:
  const char* name_;
  Function function_;
  Case* next_;
};

// The program's arguments after the case's name; 0 or nullptr where there are fewer.
const char* argument(int index);
long argument_number(int index);

// Ends the process with exit status 1 (from any thread) after one line on stderr; skip() with 77, which ctest shows as
// skipped.
[[noreturn]] void fail(const char* file, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));
[[noreturn]] void fail_check(const char* file, int line, const char* condition, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
[[noreturn]] void skip(const char* format, ...) __attribute__((format(printf, 1, 2)));
// One line on stdout, for figures that a reader wants to see.
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

// True when the allocator under test is Coffer: some promises are Coffer's alone.
bool is_coffer();
// The function of that name in any loaded library, or nullptr. Hides names that the C library may lack.
void* symbol(const char* name);
template <class F>
F* function(const char* name) {
  return reinterpret_cast<F*>(symbol(name));
}
// Verifies Coffer's metadata; does nothing over other allocators. No other thread may be inside the allocator.
void check_metadata();

// Memory of this process in KiB. resident_kib() is exact (the kernel's quick counters may be off by pages a
// processor); page_tables_kib() is VmPTE.
std::size_t resident_kib();
std::size_t page_tables_kib();
// A figure of /proc/self/status in KiB ("VmLck").
std::size_t status_kib(const char* name);

// The entry of /proc/self/smaps that holds an address.
struct Mapping {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::size_t locked_kib;
  bool marked_locked;  // "lo" among VmFlags
};
bool find_mapping(const void* address, Mapping& mapping);

// A small generator; each thread has its own.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1dull;
  }
  std::size_t below(std::size_t limit) { return (next() >> 11) % limit; }
  // Sizes as programs ask for them: mostly small, some of KiB, few large.
  std::size_t size();

 private:
  std::uint64_t state_;
};

// Writes a pattern that depends on the seed and on the place; holds_pattern tells whether all of it is still there.
void fill(void* block, std::size_t size, std::uint64_t seed);
bool holds_pattern(const void* block, std::size_t size, std::uint64_t seed);
bool all_zero(const void* block, std::size_t size);

// Lets the compiler know nothing about a pointer or a size, so that it neither removes nor warns about a call.
template <class T>
T hide(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

}  // namespace conformance

#define CASE(name)                                                       \
  static void case_##name();                                             \
  static const ::conformance::Case register_##name(#name, &case_##name); \
  static void case_##name()

#define FAIL(...) ::conformance::fail(__FILE__, __LINE__, __VA_ARGS__)
// CHECK(condition) or CHECK(condition, "format", values...).
#define CHECK(condition, ...)                                                                     \
  do {                                                                                            \
    if (!(condition)) ::conformance::fail_check(__FILE__, __LINE__, #condition, " " __VA_ARGS__); \
  } while (false)
