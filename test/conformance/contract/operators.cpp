// SPDX-License-Identifier: MIT
// The C++ operators: they fail by exception, call the new-handler, and give blocks that are as good as malloc's.
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "harness.hpp"

using namespace conformance;

namespace {

constexpr std::size_t kImpossible = SIZE_MAX / 2 - 4096;
int handler_calls = 0;

void handler_that_gives_up() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

struct OutOfPatience {};
void handler_that_throws() {
  ++handler_calls;
  throw OutOfPatience();
}

template <class F>
bool throws_bad_alloc(F call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

bool aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

}  // namespace

CASE(operator_new_throws_bad_alloc) {
  const std::size_t size = hide(kImpossible);
  CHECK(throws_bad_alloc([&] { hide(::operator new(size)); }));
  CHECK(throws_bad_alloc([&] { hide(::operator new[](size)); }));
  CHECK(throws_bad_alloc([&] { hide(::operator new(size, std::align_val_t(64))); }));
  CHECK(throws_bad_alloc([&] { hide(::operator new[](size, std::align_val_t(4096))); }));
  CHECK(::operator new(size, std::nothrow) == nullptr);
  CHECK(::operator new[](size, std::nothrow) == nullptr);
  CHECK(::operator new(size, std::align_val_t(64), std::nothrow) == nullptr);
  CHECK(::operator new[](size, std::align_val_t(4096), std::nothrow) == nullptr);
}

CASE(operator_new_calls_the_handler) {
  const std::size_t size = hide(kImpossible);
  for (int kind = 0; kind < 4; ++kind) {
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up);
    if (kind == 0) CHECK(throws_bad_alloc([&] { hide(::operator new(size)); }));
    if (kind == 1) CHECK(throws_bad_alloc([&] { hide(::operator new(size, std::align_val_t(128))); }));
    if (kind == 2) CHECK(::operator new(size, std::nothrow) == nullptr);
    if (kind == 3) CHECK(::operator new[](size, std::align_val_t(128), std::nothrow) == nullptr);
    CHECK(handler_calls == 3, "kind %d: %d calls", kind, handler_calls);
  }
  // What a handler throws passes through the throwing forms; it must not leave the allocator unusable.
  std::set_new_handler(handler_that_throws);
  bool passed = false;
  try {
    hide(::operator new(size));
  } catch (const OutOfPatience&) {
    passed = true;
  }
  CHECK(passed);
  std::set_new_handler(nullptr);
  for (int i = 0; i < 1000; ++i) ::operator delete(::operator new(static_cast<std::size_t>(i)));
  check_metadata();
}

// Undefined by the standard. libstdc++, jemalloc and TBB fail, and so must Coffer, at every alignment alike; mimalloc 2
// and tcmalloc let some pass.
CASE(operator_new_refuses_bad_alignments) {
  for (std::size_t bad : {0, 3, 6, 12, 24, 40, 48, 96, 1000, 5000}) {
    const auto alignment = std::align_val_t(hide(bad));
    for (std::size_t size : {1, 16, 1000, 1'000'000}) {
      CHECK(throws_bad_alloc([&] { hide(::operator new(size, alignment)); }), "size %zu, alignment %zu", size, bad);
      CHECK(throws_bad_alloc([&] { hide(::operator new[](size, alignment)); }), "size %zu, alignment %zu", size, bad);
      CHECK(::operator new(size, alignment, std::nothrow) == nullptr, "size %zu, alignment %zu", size, bad);
      CHECK(::operator new[](size, alignment, std::nothrow) == nullptr, "size %zu, alignment %zu", size, bad);
    }
  }
  check_metadata();
}

CASE(operator_new_and_delete_in_all_forms) {
  for (std::size_t size = 0; size < 40'000; size += size < 300 ? 1 : 611) {
    ::operator delete(hide(::operator new(size)));
    ::operator delete(hide(::operator new(size)), size);
    ::operator delete[](hide(::operator new[](size)));
    ::operator delete[](hide(::operator new[](size)), size);
    ::operator delete(hide(::operator new(size, std::nothrow)), std::nothrow);
    ::operator delete[](hide(::operator new[](size, std::nothrow)), std::nothrow);
    for (std::size_t alignment = 1; alignment <= 16384; alignment *= 4) {
      const auto value = std::align_val_t(alignment);
      void* block = hide(::operator new(size, value));
      CHECK(aligned(block, alignment), "size %zu, alignment %zu", size, alignment);
      ::operator delete(block, value);
      block = hide(::operator new[](size, value, std::nothrow));
      CHECK(aligned(block, alignment), "size %zu, alignment %zu", size, alignment);
      ::operator delete[](block, value, std::nothrow);
      ::operator delete(hide(::operator new(size, value)), size, value);
      ::operator delete[](hide(::operator new[](size, value)), size, value);
    }
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr, std::align_val_t(64));
  void* first = hide(::operator new(0));
  void* second = hide(::operator new(0));
  CHECK(first != nullptr && second != nullptr && first != second);
  // Mixed with malloc: wrong by the standard, done by programs, and no trouble for a malloc that serves both.
  free(first);
  ::operator delete(second);
  check_metadata();
}

CASE(containers) {
  struct alignas(256) Wide {
    char bytes[300];
  };
  std::vector<std::unique_ptr<Wide>> wide;
  std::vector<std::string> texts;
  for (int i = 0; i < 5000; ++i) {
    wide.push_back(std::make_unique<Wide>());
    CHECK(aligned(wide.back().get(), 256));
    texts.push_back(std::string(static_cast<std::size_t>(i), 'x'));
  }
  for (int i = 0; i < 5000; ++i) CHECK(texts[static_cast<std::size_t>(i)].size() == static_cast<std::size_t>(i));
  wide.clear();
  texts.clear();
  check_metadata();
}
