// SPDX-License-Identifier: MIT
#include "ground.hpp"

#include <sys/mman.h>

namespace simulation {

bool is_ground(uptr address) { return address >= kGroundFrom && address < kGroundTo; }

void* take_ground(u64 bytes, u64 alignment) {
  static uptr next = kGroundFrom;
  const uptr at = (next + alignment - 1) & ~(alignment - 1);
  if (at + bytes > kGroundTo) return nullptr;
  void* const wanted = reinterpret_cast<void*>(at);
  void* const got =
      mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) {
    if (got != MAP_FAILED) munmap(got, bytes);
    return nullptr;
  }
  // Neighbours do not share a page table, nor a line.
  next = at + bytes + (u64{2} << 20);
  return got;
}

}  // namespace simulation
