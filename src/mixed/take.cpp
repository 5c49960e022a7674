// SPDX-License-Identifier: MIT
// How blocks are cut from the holes of mixed spans: which span, which hole, and where in it.
#include "mixed/map_of.hpp"
#include "mixed/mixed.hpp"
#include "span/choices.hpp"

namespace coffer {

namespace {

// Spans of one list that a search looks at, where the size lies inside the list and some of them are just too small;
// and tables that it looks into, where alignment decides.
constexpr u32 kLooksOfList = 8;
constexpr u32 kLooks = 12;

// A hole with room for a few blocks more, so that choosing among places costs nothing else.
bool is_wide(u32 hole, u32 units) { return hole >= 2 * units + kUnitsPerPage; }

// Blocks of whole pairs of lines: one after the other they would reach some cache indices only.
bool is_pairs(u32 units) { return units % (2 * kUnitsPerLine) == 0; }

// The first place for a block of so many units in a hole.
u32 start_in(const Span* span, u32 from, u32 to, u32 units, u32 align) {
  if (is_wide(to - from, units)) return indexed_start(span, static_cast<u32>(round_up(from, align)), units);
  return static_cast<u32>(round_up(from, align));
}

}  // namespace

u32 indexed_start(const Span* span, u32 from, u32 units) {
  if (g_span_choices.all_on_lines.get() != 0 && units > kUnitsPerLine)
    units = static_cast<u32>(round_up(units, kUnitsPerLine));
  if (!is_pairs(units) || g_span_choices.flat.get() != 0) return from;
  const u32 lines = units / kUnitsPerLine;
  const u32 natural = lines & (0 - lines);
  const u32 step = natural < kCacheSets ? natural : kCacheSets;
  const u32 first_page = static_cast<u32>(span_start(span) / kCachePage);
  const auto line_in = [&](u32 page) { return (first_page + page + (first_page + page) / 2) & (step - 1); };
  const u32 line = static_cast<u32>(divide_up(from, kUnitsPerLine));
  const u32 page = line / kCacheSets;
  const u32 start = line + ((line_in(page) - line) & (step - 1));
  const bool same_page = start / kCacheSets == page;
  return kUnitsPerLine * (same_page ? start : (page + 1) * kCacheSets + line_in(page + 1));
}

// The shard whose smallest hole of at least about `units` is the smallest; not one of those in `tried`.
MixedPool::Shard* MixedPool::choose(u32 units, u32 tried) {
  Shard* best = nullptr;
  u32 best_list = kHoleLists;
  for (u32 i = 0; i < kShards; ++i) {
    if ((tried >> i) & 1) continue;
    const u32 list = shards_[i].filled.next(hole_list(units));
    if (list >= best_list) continue;
    best = &shards_[i];
    best_list = list;
  }
  return best;
}

// A span with a hole for `units` at a multiple of `align`; the smallest that will do, by lists.
Span* MixedPool::find(Shard& shard, u32 units, u32 align) {
  u32 looks = kLooks;
  for (u32 list = hole_list(units); (list = shard.filled.next(list)) < kHoleLists; ++list) {
    SpanNumber number = shard.heads[list].get();
    for (u32 i = 0; number != 0 && i < kLooksOfList; ++i) {
      Span* span = span_at(number);
      const u32 hole = hole_of(span);
      if (hole >= units + align - 1) return span;
      // Only where it starts decides. A look into the table takes as long as all the rest.
      if (hole >= units && looks > 0) {
        --looks;
        if (map_of(span).has_hole(search_start(span), units, align)) return span;
      }
      number = span->next.get();
    }
  }
  return nullptr;
}

namespace {

// What is cut at once: `blocks` blocks of `units`, one after the other, the first at a multiple of `align`.
struct Piece {
  u32 units, align, blocks;
  u32 all() const { return units * blocks; }
};

Piece piece_of(u32 bytes, Lines lines) {
  const u32 units = static_cast<u32>(bytes / kQuantum);
  const u32 natural = units & (0 - units);
  const bool on_line = natural >= kUnitsPerLine || (g_span_choices.all_on_lines.get() != 0 && units >= kUnitsPerLine);
  if (on_line) return {units, kUnitsPerLine, 1};
  // So many blocks end where a line does.
  if (lines == Lines::whole) return {units, kUnitsPerLine, kUnitsPerLine / natural};
  return {units, natural, 1};
}

// What a call of take() cuts, and what is left of the holes that it comes by.
struct Cut {
  const Piece piece;
  const u32 most;
  u32 found[kMostTaken];
  u32 count = 0;
  u64 pages = 0;
  u32 largest = 0, largest_at = 0;

  bool complete() const { return count + piece.blocks > most; }
  // Cuts what it can from the hole [from, to), beginning at its front.
  void hole(const Span* span, UnitMap& map, u32 from, u32 to) {
    while (!complete()) {
      const u32 at = start_in(span, from, to, piece.units, piece.align);
      if (at + piece.all() > to) break;
      for (u32 i = 0; i < piece.blocks; ++i) {
        map.add(at + i * piece.units, piece.units);
        found[count++] = at + i * piece.units;
      }
      pages |= pages_of(at, at + piece.all());
      leave(from, at);
      from = at + piece.all();
    }
    leave(from, to);
  }

 private:
  void leave(u32 from, u32 to) {
    if (to - from <= largest) return;
    largest = to - from;
    largest_at = from;
  }
};

// Of a mixed span: cuts blocks, and tells the largest hole that is left. false: the largest one was not touched, and
// what else there is was not looked at.
//
// While a span fills, what will be left of its largest hole is more than all others together. Then it is cut, and
// nobody looks at the others. Later the first holes that fit serve.
bool cut_blocks(UnitMap& map, Span* span, Cut& cut) {
  const u32 before = hole_of(span);
  u32 free = map.units() - span->cut.get();
  const u32 at = hole_at(span);
  if (2 * before > free + cut.most * cut.piece.units && !map.is_used(at)) {
    const u32 to = map.next_used(at);
    if (to - at >= before) {
      cut.hole(span, map, at, to);
      if (cut.complete() && cut.largest >= free - (to - at)) return true;
    }
  }
  bool touched = cut.count != 0;
  free -= cut.count * cut.piece.units;
  cut.largest = 0;
  u32 from = map.next_free(search_start(span));
  set_search_start(span, from);
  // What is free behind cannot be larger than all that is free and was not come by.
  while (from < map.units() && (!cut.complete() || free > cut.largest)) {
    const u32 to = map.next_used(from);
    const bool was_complete = cut.complete();
    cut.hole(span, map, from, to);
    touched = touched || to - from >= before;
    if (cut.complete() && !was_complete && !touched) return false;
    free -= to - from;
    from = to < map.units() ? map.next_free(to) : to;
  }
  return true;
}

}  // namespace

Block* MixedPool::take(u32 bytes, u32 most, Lines lines) {
  Piece piece = piece_of(bytes, lines);
  if (most > kMostTaken) most = kMostTaken;
  if (piece.blocks > most) piece.blocks = most;
  Cut cut = {piece, most, {}};
  uptr start = 0;
  // A shard that was chosen may turn out to have no such hole.
  for (u32 tried = 0; cut.count == 0;) {
    Shard* shard = choose(piece.all(), tried);
    if (shard == nullptr) return nullptr;
    LockGuard guard(shard->lock);
    while (cut.count == 0) {
      Span* span = find(*shard, piece.all(), piece.align);
      if (span == nullptr) break;
      start = span_start(span);
      UnitMap map = map_of(span);
      const bool known = cut_blocks(map, span, cut);
      if (known) place(*shard, span, cut.largest, cut.largest_at);  // also where its hole was an old one
      if (cut.count != 0) {
        set_live(*shard, span, span->cut.get() + cut.count * piece.units);
        span->absent.set(span->absent.get() & ~cut.pages);
      }
    }
    tried |= 1u << (shard - shards_);
  }
  // Linked without the lock: the holes may not be resident.
  Block* list = nullptr;
  while (cut.count > 0) {
    Block* block = reinterpret_cast<Block*>(start + usize{cut.found[--cut.count]} * kQuantum);
    block->next = list;
    list = block;
  }
  return list;
}

}  // namespace coffer
