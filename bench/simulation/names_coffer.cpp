// SPDX-License-Identifier: MIT
// What the lines of Coffer's records are.
#include "exchange/registry.hpp"
#include "program.hpp"
#include "symbols.hpp"

namespace simulation::subject {

namespace {

using coffer::Chunk;
using coffer::Group;
using coffer::Heap;
using coffer::Span;

// Whether the address lies in a table of `count` records.
template <class T>
bool in(uptr address, const T* table, u64 count) {
  return table != nullptr && address - reinterpret_cast<uptr>(table) < count * sizeof(T);
}
template <class T>
u64 offset_in(uptr address, const T* table) {
  return (address - reinterpret_cast<uptr>(table)) % sizeof(T);
}

std::string name_in_heap(uptr address, const Heap& heap) {
  const auto from = [&](const auto& field) { return reinterpret_cast<uptr>(&field) / kLineBytes * kLineBytes; };
  if (address >= from(heap.mailbox)) return "heap: mailbox, held, watched";
  if (address >= from(heap.self)) return "heap: self, inside, chain, slow paths";
  return "heap: lists of hot spans";
}

}  // namespace

std::string name_of(uptr address) {
  for (const coffer::Arena& arena : coffer::g_arenas.arenas) {
    if (arena.bytes == 0) continue;
    const u64 chunks = arena.chunk_count, slots = chunks * coffer::kSlicesPerChunk;
    const u64 groups = (chunks + coffer::kChunksPerGroup - 1) / coffer::kChunksPerGroup;
    if (address - arena.base < arena.bytes) return "blocks";
    if (in(address, arena.spans, slots)) {
      return offset_in(address, arena.spans) < kLineBytes ? "span: owner's line" : "span: shared line (remote word)";
    }
    if (in(address, arena.chunks, chunks)) return "chunk: free and dirty slots";
    if (in(address, arena.groups, groups)) {
      return offset_in(address, arena.groups) < kLineBytes ? "group: room, taken" : "group: dirty";
    }
    if (in(address, arena.summary, (groups / coffer::kSummaryRatio + 1) * coffer::kOrders)) return "summary of room";
    if (in(address, arena.unit_maps, slots * (coffer::kUnitMapBytes / sizeof(u64)))) return "unit maps of mixed spans";
  }
  for (u32 i = 0; i < coffer::heaps_ever(); ++i) {
    const Heap* const heap = coffer::heap_by_index(i);
    if (in(address, heap, 1)) return name_in_heap(address, *heap);
  }
  return "";
}

}  // namespace simulation::subject
