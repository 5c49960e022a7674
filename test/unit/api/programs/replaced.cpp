// SPDX-License-Identifier: MIT
// A program that replaces `operator new(size)` and `operator delete(block)` alone, with blocks that Coffer never saw.
// The standard promises that all other forms (except the aligned ones) end in these.
#include <new>

#include "check.h"

namespace {

alignas(16) char pool[1 << 16];
std::size_t used = 0;
int news = 0;
int deletes = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++news;
  size = (size + 15) / 16 * 16;
  if (size > sizeof pool - used) throw std::bad_alloc();
  used += size;
  return pool + used - size;
}

void operator delete(void* block) noexcept {
  if (block == nullptr) return;
  ++deletes;
  CHECK(block >= pool && block < pool + sizeof pool);
}

int main() {
  news = deletes = 0;
  for (int i = 0; i < 10; ++i) {
    ::operator delete(opaque(::operator new(100)), std::size_t{100});
    ::operator delete(opaque(::operator new(100, std::nothrow)), std::nothrow);
    ::operator delete[](opaque(::operator new[](100)));
    ::operator delete[](opaque(::operator new[](100)), std::size_t{100});
    ::operator delete[](opaque(::operator new[](100, std::nothrow)), std::nothrow);
  }
  CHECK(news == 50 && deletes == 50);
  CHECK(opaque(::operator new(1 << 20, std::nothrow)) == nullptr);
  CHECK(opaque(::operator new[](1 << 20, std::nothrow)) == nullptr);
  CHECK(news == 52);
  // The aligned forms are a family of their own, not replaced here.
  ::operator delete(opaque(::operator new(100, std::align_val_t{64})), std::size_t{100}, std::align_val_t{64});
  CHECK(news == 52 && deletes == 50);
  puts("good");
  return 0;
}
