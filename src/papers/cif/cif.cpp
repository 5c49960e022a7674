// SPDX-License-Identifier: MIT
#include "papers/cif/cif.hpp"

#include "config/config.hpp"
#include "os/os.hpp"
#include "papers/cif/heap.hpp"
#include "papers/common/describe.hpp"
#include "papers/common/mapped.hpp"
#include "papers/common/word.hpp"

namespace coffer::cif {

namespace {

constinit Heaps g_heaps;

using papers::Kind;

u64 colour_seed() {
  // The paper names the time of day, the process's number, or the system's random numbers.
  const u32 wanted = config::options().seed;
  return wanted != 0 ? wanted : os::random_seed();
}

bool is_mapped(void* block) { return papers::kind_of(papers::word_before(block)) == Kind::mapped; }

void* allocate_block(usize bytes) { return g_heaps.allocate(g_heaps.settings().classes.of_block(bytes)); }

void* map_large(usize size, usize alignment) {
  return g_heaps.allocate_large([=] { return papers::map_block(size, alignment); });
}

// Blocks of a line and more that stand on lines are aligned to a line as they are.
bool is_on_line(usize alignment) {
  const Settings& settings = g_heaps.settings();
  return settings.shift == 0 && alignment <= settings.cache.line;
}

}  // namespace

bool Cif::start() {
  const config::Options& options = config::options();
  return g_heaps.start(make_settings(options, os::page_size()), options.heaps, colour_seed());
}

void Cif::fork_prepare() { g_heaps.lock_for_fork(); }

void Cif::fork_parent() { g_heaps.unlock_after_fork(); }

// Parent and child are two processes that run side by side: they shall not go on with the same colours (section 5).
void Cif::fork_child() {
  g_heaps.seed_colours(colour_seed());
  g_heaps.unlock_after_fork();
}

void* Cif::allocate(usize size) {
  const usize bytes = size + papers::kWord;
  return COFFER_LIKELY(bytes <= g_heaps.settings().largest_block) ? allocate_block(bytes)
                                                                  : map_large(size, papers::kBlockAlignment);
}

void* Cif::allocate_aligned(usize size, usize alignment) {
  const Settings& settings = g_heaps.settings();
  const usize bytes = size + papers::kWord;
  const usize line = settings.cache.line;
  if (is_on_line(alignment) && bytes <= settings.largest_block) return allocate_block(bytes > line ? bytes : line);
  const usize room = papers::with_room_for(bytes, alignment);
  if (room > settings.largest_block) return map_large(size, alignment);
  void* block = allocate_block(room);
  return block != nullptr ? papers::aligned_inside(block, alignment) : nullptr;
}

void Cif::deallocate(void* block) {
  if (COFFER_UNLIKELY(is_mapped(block))) return papers::unmap_block(block);
  g_heaps.deallocate(papers::whole_block(block));
}

usize Cif::usable_size(void* block) {
  if (is_mapped(block)) return papers::mapped_size(block);
  void* start = papers::whole_block(block);
  const auto* superblock = papers::superblock_of<Superblock>(papers::word_before(start));
  const usize inside = static_cast<usize>(static_cast<char*>(block) - static_cast<char*>(start));
  return superblock->array.block - papers::kWord - inside;
}

bool Cif::is_zero(void* block) { return is_mapped(block); }

void* Cif::resize(void* block, usize size) {
  const bool stays_large = size + papers::kWord > g_heaps.settings().largest_block;
  return stays_large && is_mapped(block) ? papers::resize_mapped(block, size) : nullptr;
}

bool Cif::trim() { return g_heaps.trim(); }

void Cif::statistics(Statistics& statistics) {
  const Settings& settings = g_heaps.settings();
  constexpr u32 kMost = sizeof statistics.by_class / sizeof statistics.by_class[0];
  statistics.classes = settings.class_count < kMost ? settings.class_count : kMost;
  for (u32 c = 0; c < statistics.classes; ++c) {
    statistics.by_class[c] = {};
    statistics.by_class[c].block_bytes = settings.classes.bytes(c);
  }
  usize empty = 0;
  g_heaps.visit_heaps([&](Heap& heap, u32) {
    for (u32 c = 0; c < settings.class_count; ++c) {
      ClassHeap& its = heap.of(c);
      const usize live = its.used * settings.classes.bytes(c);
      usize superblocks = 0;
      for (u32 g = 0; g < FullnessGroups::kGroups; ++g) {
        for (const Filling* f = its.groups.first(g); f != nullptr; f = f->next) ++superblocks;
      }
      statistics.live += live;
      statistics.spans += superblocks;
      if (c >= kMost) continue;
      statistics.by_class[c].spans += superblocks;
      statistics.by_class[c].held += superblocks * settings.superblock;
      statistics.by_class[c].live += live;
    }
    empty += heap.empty_count;
  });
  statistics.free_resident = empty * settings.superblock;
  statistics.live += papers::totals().mapped.now();
  statistics.heaps = statistics.heaps_ever = g_heaps.made();
  statistics.system_calls = os::call_count();
}

void Cif::describe(Text& text) {
  u64 arrivals = 0, to_global = 0, locks = 0, global_locks = 0, empty = 0;
  g_heaps.visit_heaps([&](Heap& heap, u32 number) {
    (number == 0 ? to_global : arrivals) += heap.arrivals;
    (number == 0 ? global_locks : locks) += heap.lock.taken();
    empty += heap.empty_count;
  });
  papers::add_line(text, "heap locks", locks);
  papers::add_line(text, "global locks", global_locks);
  papers::add_line(text, "to global heap", to_global);
  papers::add_line(text, "from global heap", arrivals);
  papers::add_line(text, "empty in global", empty);
}

usize Cif::check() { return g_heaps.check(); }

}  // namespace coffer::cif
