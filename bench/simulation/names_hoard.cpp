// SPDX-License-Identifier: MIT
// What the lines of Hoard's records are.
#include "papers/hoard/heap.hpp"
#include "program.hpp"

namespace simulation::subject {

std::string name_of(uptr address) {
  using namespace coffer::papers::hoard;
  const uptr heaps = reinterpret_cast<uptr>(g_hoard.first_heap);
  if (heaps == 0) return "";
  if (address - heaps < sizeof(Heap)) return "heap 0 (the global heap)";
  if (address - heaps < heap_count() * sizeof(Heap)) {
    return (address - heaps) % sizeof(Heap) < kLineBytes ? "heap: lock" : "heap: counts, lists of superblocks";
  }
  if (!is_ground(address) || is_table(address)) return "";
  // Superblocks are aligned to their size, and nothing else of Hoard's is mapped for small blocks.
  return address % g_hoard.superblock_bytes < sizeof(Superblock) ? "superblock: record" : "blocks";
}

}  // namespace simulation::subject
