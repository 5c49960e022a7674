// SPDX-License-Identifier: MIT
#include "arena/block.hpp"

#include "harden/report.hpp"
#include "os/os.hpp"

namespace coffer {

// It leads to itself, so that a list which malloc finds empty stays so. Every mark has kMarkByte.
constinit Block g_list_end = {&g_list_end, 0};

void links_start() {
  // In a fork child whose parent was starting, or if an earlier start failed after it, there may be lists already.
  Arena& first = g_arenas.arenas[0];
  // relaxed, all: a thread without a list meets g_list_end alone, whose mark is wrong for every key. Who has a block
  // has the key from who made its heap.
  if (kMisuseChecks && first.link_key.load(relaxed) == 0) {
    first.link_key.store(make_link_key(os::random_seed()), relaxed);
  }
}

void report_broken_link(const Block* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  usize bytes = 0;
  if (Arena* arena = arena_of(address)) {
    const Span* span = slice_record(arena, address);
    // relaxed: last words.
    if (span->use.load(relaxed) == SliceUse::span_rest) span -= span->first_distance.get();
    if (span->use.load(relaxed) == SliceUse::span) bytes = span->block_bytes.get();
  }
  harden::broken_link(block, bytes);
}

}  // namespace coffer
