// SPDX-License-Identifier: MIT
// Every operator new and delete, the new-handler, and std::bad_alloc.
#include <cerrno>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <vector>

#include "check.h"

namespace {

constexpr std::size_t kTooMuch = PTRDIFF_MAX;
int handler_calls = 0;

bool aligned_to(void* block, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(block) % alignment == 0; }

void ordinary() {
  int* one = static_cast<int*>(opaque(new int(7)));
  CHECK(*one == 7);
  delete one;
  ::operator delete(opaque(::operator new(100)));
  ::operator delete(opaque(::operator new(100)), std::size_t{100});
  ::operator delete(opaque(::operator new(100, std::nothrow)), std::nothrow);
  ::operator delete[](opaque(::operator new[](100)));
  ::operator delete[](opaque(::operator new[](100)), std::size_t{100});
  ::operator delete[](opaque(::operator new[](100, std::nothrow)), std::nothrow);
  ::operator delete(nullptr);
  ::operator delete(nullptr, std::size_t{100});
  ::operator delete[](nullptr, std::size_t{100}, std::align_val_t{64});
  CHECK(opaque(::operator new(0)) != nullptr);
}

void aligned() {
  for (std::size_t size : {1, 100, 5000, 100000}) {
    for (std::size_t power = 1; power <= (std::size_t{1} << 23); power *= 2) {
      const std::align_val_t alignment{power};
      void* blocks[4] = {::operator new(size, alignment), ::operator new(size, alignment, std::nothrow),
                         ::operator new[](size, alignment), ::operator new[](size, alignment, std::nothrow)};
      for (void* block : blocks) CHECK(block != nullptr && aligned_to(block, power));
      ::operator delete(blocks[0], alignment);
      ::operator delete(blocks[1], size, alignment);
      ::operator delete[](blocks[2], size, alignment);
      ::operator delete[](blocks[3], alignment, std::nothrow);
    }
  }
}

template <class Function>
bool throws_bad_alloc(Function function) {
  try {
    function();
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

void exhausted() {
  CHECK(throws_bad_alloc([] { opaque(::operator new(kTooMuch)); }));
  CHECK(throws_bad_alloc([] { opaque(::operator new[](kTooMuch)); }));
  CHECK(throws_bad_alloc([] { opaque(::operator new(kTooMuch, std::align_val_t{128})); }));
  CHECK(throws_bad_alloc([] { opaque(::operator new[](kTooMuch, std::align_val_t{128})); }));
  CHECK(throws_bad_alloc([] { opaque(::operator new(SIZE_MAX, std::align_val_t{8})); }));
  CHECK(opaque(::operator new(kTooMuch, std::nothrow)) == nullptr);
  CHECK(opaque(::operator new[](SIZE_MAX, std::nothrow)) == nullptr);
  CHECK(opaque(::operator new(kTooMuch, std::align_val_t{128}, std::nothrow)) == nullptr);
  CHECK(opaque(::operator new[](kTooMuch, std::align_val_t{128}, std::nothrow)) == nullptr);
}

void with_handler() {
  // One that gives up by removing itself, after three calls.
  std::set_new_handler([] {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
  });
  CHECK(throws_bad_alloc([] { opaque(::operator new(kTooMuch)); }));
  CHECK(handler_calls == 3);

  // One that throws something else: the throwing forms let it pass, the others catch it.
  std::set_new_handler([] { throw std::runtime_error("from the handler"); });
  bool passed = false;
  try {
    opaque(::operator new(kTooMuch));
  } catch (const std::runtime_error&) {
    passed = true;
  }
  CHECK(passed);
  for (int i = 0; i < 100; ++i) {
    CHECK(opaque(::operator new(kTooMuch, std::nothrow)) == nullptr);
    CHECK(opaque(::operator new[](kTooMuch, std::nothrow)) == nullptr);
    CHECK(opaque(::operator new(kTooMuch, std::align_val_t{256}, std::nothrow)) == nullptr);
    CHECK(opaque(::operator new[](kTooMuch, std::align_val_t{256}, std::nothrow)) == nullptr);
  }
  std::set_new_handler(nullptr);
}

// An alignment that is no power of two fails like a block that cannot be had, and asks no handler.
void misaligned() {
  std::set_new_handler([] { ++handler_calls; });
  for (std::size_t bad : {std::size_t{0}, std::size_t{3}, std::size_t{7}, std::size_t{12}, std::size_t{15},
                          std::size_t{24}, std::size_t{48}, std::size_t{100}, std::size_t{4097}, SIZE_MAX}) {
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{100000}, kTooMuch}) {
      const std::align_val_t alignment{bad};
      CHECK(throws_bad_alloc([&] { opaque(::operator new(size, alignment)); }));
      CHECK(throws_bad_alloc([&] { opaque(::operator new[](size, alignment)); }));
      errno = 0;
      CHECK(opaque(::operator new(size, alignment, std::nothrow)) == nullptr && errno == EINVAL);
      errno = 0;
      CHECK(opaque(::operator new[](size, alignment, std::nothrow)) == nullptr && errno == EINVAL);
    }
  }
  CHECK(handler_calls == 0);
  std::set_new_handler(nullptr);
}

}  // namespace

int main() {
  ordinary();
  aligned();
  misaligned();
  exhausted();
  with_handler();
  std::vector<int> numbers(1000, 1);
  CHECK(
      throws_bad_alloc([&] { static_cast<std::vector<int>*>(opaque(&numbers))->reserve(PTRDIFF_MAX / sizeof(int)); }));
  puts("good");
  return 0;
}
