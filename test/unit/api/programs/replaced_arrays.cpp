// SPDX-License-Identifier: MIT
// A program that replaces the basic forms for arrays alone, plain and aligned, and puts a header before each block: all
// other forms for arrays end in these, and those for single objects do not.
#include <cstdlib>
#include <new>

#include "check.h"

namespace {

constexpr std::size_t kAlignment = 64;
int news = 0;
int deletes = 0;
bool fails = false;

void* behind_header(std::size_t size, std::size_t header) {
  ++news;
  char* const block = fails ? nullptr : static_cast<char*>(std::aligned_alloc(header, (size / header + 2) * header));
  if (block == nullptr) throw std::bad_alloc();
  return block + header;
}

void free_behind_header(void* block, std::size_t header) {
  if (block == nullptr) return;
  ++deletes;
  std::free(static_cast<char*>(block) - header);
}

}  // namespace

void* operator new[](std::size_t size) { return behind_header(size, 16); }
void operator delete[](void* block) noexcept { free_behind_header(block, 16); }
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return behind_header(size, static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::align_val_t alignment) noexcept {
  free_behind_header(block, static_cast<std::size_t>(alignment));
}

int main() {
  const std::align_val_t alignment{kAlignment};
  news = deletes = 0;
  for (int i = 0; i < 10; ++i) {
    ::operator delete[](opaque(::operator new[](100)));
    ::operator delete[](opaque(::operator new[](100)), std::size_t{100});
    ::operator delete[](opaque(::operator new[](100)), std::nothrow);
    ::operator delete[](opaque(::operator new[](100, std::nothrow)));
    ::operator delete[](opaque(::operator new[](100, alignment)), alignment);
    ::operator delete[](opaque(::operator new[](100, alignment)), std::size_t{100}, alignment);
    ::operator delete[](opaque(::operator new[](100, alignment)), alignment, std::nothrow);
    ::operator delete[](opaque(::operator new[](100, alignment, std::nothrow)), alignment);
  }
  CHECK(news == 80 && deletes == 80);
  fails = true;
  CHECK(opaque(::operator new[](100, std::nothrow)) == nullptr);
  CHECK(opaque(::operator new[](100, alignment, std::nothrow)) == nullptr);
  CHECK(news == 82);
  // Single objects are a family of their own, not replaced here.
  ::operator delete(opaque(::operator new(100)), std::size_t{100});
  ::operator delete(opaque(::operator new(100, alignment)), std::size_t{100}, alignment);
  ::operator delete(opaque(::operator new(100, std::nothrow)), std::nothrow);
  CHECK(news == 82 && deletes == 80);
  puts("good");
  return 0;
}
