// SPDX-License-Identifier: MIT
// How blocks are cut from the holes of mixed spans: which span, which hole, and where in it.
#include "mixed/map_of.hpp"
#include "mixed/mixed.hpp"
#include "policy/mixing.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"

namespace coffer {

namespace {

// A hole with room for a few blocks more, so that choosing among places costs nothing else.
bool is_wide(u32 hole, u32 units) { return hole >= 2 * units + kUnitsPerPage; }

// Blocks of whole pairs of lines: one after the other they would reach some cache indices only.
bool is_pairs(u32 units) { return units % (2 * kUnitsPerLine) == 0; }

// The first place for a block of so many units in a hole.
u32 start_in(const Span* span, u32 from, u32 to, u32 units, u32 align) {
  from = static_cast<u32>(round_up(from, align));
  if (from > to || !is_wide(to - from, units)) return from;
  const u32 indexed = indexed_start(span, from, units);
  return indexed + units <= to ? indexed : from;
}

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

// What a call of take() cuts.
struct Cut {
  const Piece piece;
  const u32 most;
  u32 (&found)[kMostTaken];
  u32 count = 0;
  u64 pages = 0;

  bool complete() const { return count + piece.blocks > most; }
  // Cuts what it can from the hole, beginning at its front; returns what is left of it behind that.
  UnitMap::Hole hole(const Span* span, UnitMap& map, UnitMap::Hole whole) {
    UnitMap::Hole left = whole;
    const u32 end = whole.at + whole.units;
    while (!complete()) {
      u32 at = start_in(span, left.at, end, piece.units, piece.align);
      if (at + piece.all() > end) break;
      pages |= pages_of(at, at + piece.all());
      if (at != left.at && left.at != whole.at) map.hole_grew({at - left.at, left.at});
      for (u32 i = 0; i < piece.blocks; ++i, at += piece.units) {
        map.put(at, piece.units, end);
        found[count++] = at;
      }
      left = {end - at, at};
    }
    map.hole_changed(whole, left);
    return left;
  }
};

}  // namespace

u32 indexed_start(const Span* span, u32 from, u32 units) {
  if (g_span_choices.all_on_lines.get() != 0 && units > kUnitsPerLine)
    units = static_cast<u32>(round_up(units, kUnitsPerLine));
  if (!is_pairs(units) || g_span_choices.flat.get() != 0) return from;
  const u32 lines = units / kUnitsPerLine;
  const u32 natural = lines & (0 - lines);
  const u32 step = natural < kCacheSets ? natural : kCacheSets;
  const u32 first_page = static_cast<u32>(span_start(span) / kCachePage);
  const u32 process = index_of_place(0);
  const auto line_in = [&](u32 page) { return (first_page + page + (first_page + page) / 2 + process) & (step - 1); };
  const u32 line = static_cast<u32>(divide_up(from, kUnitsPerLine));
  const u32 page = line / kCacheSets;
  const u32 start = line + ((line_in(page) - line) & (step - 1));
  const bool same_page = start / kCacheSets == page;
  return kUnitsPerLine * (same_page ? start : (page + 1) * kCacheSets + line_in(page + 1));
}

// A slot whose hole has room for `units` at a multiple of `align`, as `fits` tells; about the smallest that will do.
template <class Fits>
Span* MixedPool::find(Shard& shard, u32 units, u32 align, Fits&& fits) {
  const u32 sure = sure_list(units + align - 1);
  u32 looks = 0;
  u32 list = shard.filled.next(hole_list(units));
  for (; list < sure && looks < kLooks; list = shard.filled.next(list + 1)) {
    SpanNumber number = shard.heads[list].get();
    for (; number != 0 && looks < kLooks; number = span_at(number)->next.get()) {
      ++looks;
      if (!fits(span_at(number))) continue;
      shard.looks.set(shard.looks.get() + looks);
      return span_at(number);
    }
  }
  shard.looks.set(shard.looks.get() + looks + 1);
  if (list < sure) list = shard.filled.next(sure);
  return list < kHoleLists ? span_at(shard.heads[list].get()) : nullptr;
}

Block* MixedPool::take(u32 bytes, u32 most, Lines lines, u32 home) {
  Piece piece = piece_of(bytes, lines);
  if (most > kMostTaken) most = kMostTaken;
  if (piece.blocks > most) piece.blocks = most;
  u32 found[kMostTaken];  // not zeroed with the rest of Cut
  Cut cut = {piece, most, found};
  const u32 list = hole_list(piece.all());
  uptr start = 0;
  u64 absent = 0;
  const auto fits = [&](Span* slot) {
    const UnitMap::Hole hole = hole_of(slot);
    return round_up(hole.at, piece.align) + piece.all() <= hole.at + hole.units;
  };
  for (u32 i = 0; i < kShards && cut.count == 0; ++i) {
    Shard& shard = shards_[(home + i) % kShards];
    if (i != 0 && shard.filled.next(list) == kHoleLists) continue;
    LockGuard guard(shard.lock);
    shard.takes.set(shard.takes.get() + 1);
    Span* slot = find(shard, piece.all(), piece.align, fits);
    if (slot == nullptr) continue;
    Span* span = first_record(slot);
    UnitMap map = map_of(span);
    start = span_start(span);
    u32 looks = 0;
    do {
      const UnitMap::Hole left = cut.hole(span, map, hole_of(slot));
      // What starts in this slot has to be looked for; where the cut ends in another, what is left of the hole is new.
      count_holes(shard, span, slot, slot);
      if (left.units != 0 && span + slot_of(left.at) != slot) hole_grew(shard, span, left);
    } while (!cut.complete() && ++looks < kLooks && fits(slot));
    set_live(shard, span, span->live_units.get() + cut.count * piece.units);
    absent = span->absent.get();
    span->absent.set(absent & ~cut.pages);
  }
  // Written to without the lock: the holes may not be resident.
  if (most == 1 && cut.count == 1) return fresh_block(start, cut.found[0], absent);
  Block* first = nullptr;
  while (cut.count > 0) {
    Block* block = reinterpret_cast<Block*>(start + usize{cut.found[--cut.count]} * kQuantum);
    set_next(block, first);
    first = block;
  }
  return first;
}

}  // namespace coffer
