// SPDX-License-Identifier: MIT
// Deallocations with a size that the block cannot have: each aborts, which the test expects.
#include <new>

#include "check.h"

extern "C" void free_sized(void* block, std::size_t size) noexcept;
extern "C" void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept;

int main(int, char** arguments) {
  const int which = atoi(arguments[1]);
  free_sized(opaque(malloc(100)), 100);
  free_aligned_sized(opaque(aligned_alloc(64, 128)), 64, 128);
  free_sized(nullptr, 100);
  switch (which) {
    case 0:
      free_sized(opaque(malloc(100)), 100000);
      break;
    case 1:
      free_aligned_sized(opaque(aligned_alloc(64, 128)), 64, 100000);
      break;
    case 2:
      ::operator delete(opaque(::operator new(100)), std::size_t{100000});
      break;
    case 3:
      ::operator delete[](opaque(::operator new[](100)), std::size_t{100000});
      break;
    case 4:
      ::operator delete(opaque(::operator new(100, std::align_val_t{64})), std::size_t{100000}, std::align_val_t{64});
      break;
    default:
      break;
  }
  return 1;
}
