// SPDX-License-Identifier: MIT
// How blocks are carved from the holes of mixed spans: which span, which hole, and where in it.
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

bool is_absent(const Span* span, uptr address) {
  return ((span->absent.get() >> ((address - span_start(span)) / kCarvePage)) & 1) != 0;
}

// What is carved at once: `blocks` blocks of `units`, one after the other, the first at a multiple of `align`.
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

// What a call of take() carves.
struct Carving {
  const Piece piece;
  const u32 most;
  uptr (&found)[kMostTaken];  // where the blocks start
  u32 count = 0;

  bool complete() const { return count + piece.blocks > most; }
  // Cuts what it can from the hole, beginning at its front. Returns where what is left of it behind that begins.
  // intact(hole): one that is left before a block, and does not begin where the whole one did.
  template <class Intact>
  u32 hole(const Span* span, UnitMap& map, Hole whole, u64* pages, Intact&& intact) {
    const uptr start = span_start(span);
    const u32 end = whole.at + whole.units;
    u32 from = whole.at;
    while (!complete()) {
      u32 at = start_in(span, from, end, piece.units, piece.align);
      if (at + piece.all() > end) break;
      *pages |= pages_of(at, at + piece.all());
      const Hole before = {at - from, from};
      for (u32 i = 0; i < piece.blocks; ++i, at += piece.units) {
        map.put(at, piece.units, end);
        found[count++] = start + usize{at} * kQuantum;
      }
      if (before.units != 0 && from != whole.at) intact(before);
      from = at;
    }
    return from;
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

// A page whose hole has room, as `fits` tells; about the smallest that will do. On no list before `least` there is one,
// and from `sure` on every hole has. 0: there is none.
template <class Fits>
PageNumber MixedPool::find(Shard& shard, u32 least, u32 sure, Fits&& fits) {
  u32 looks = 0;
  u32 list = shard.filled.next(least);
  for (; list < sure && looks < kLooks; list = shard.filled.next(list + 1)) {
    PageNumber number = shard.heads[list].get();
    for (; number != 0 && looks < kLooks; ++looks) {
      const PageRecord& record = record_of(number);
      if (fits(record)) break;
      number = record.next();
    }
    if (number == 0 || looks == kLooks) continue;
    shard.looks.set(shard.looks.get() + looks + 1);
    return number;
  }
  shard.looks.set(shard.looks.get() + looks + 1);
  if (list < sure) list = shard.filled.next(sure);
  return list < kHoleLists ? shard.heads[list].get() : 0;
}

Block* MixedPool::take(u32 bytes, u32 most, Lines lines, u32 home) {
  Piece piece = piece_of(bytes, lines);
  if (most > kMostTaken) most = kMostTaken;
  if (piece.blocks > most) piece.blocks = most;
  uptr found[kMostTaken];  // not zeroed with the rest of Carving
  Carving carved = {piece, most, found};
  const u32 least = hole_list(piece.all()), sure = sure_list(piece.all() + piece.align - 1);
  bool absent = false;
  const auto fits = [&](const PageRecord& record) {
    const Hole hole = record.hole();
    return round_up(hole.at, piece.align) + piece.all() <= hole.at + hole.units;
  };
  for (u32 i = 0; i < kShards && carved.count == 0; ++i) {
    Shard& shard = shards_[(home + i) % kShards];
    if (i != 0 && shard.filled.next(least) == kHoleLists) continue;
    LockGuard guard(shard.lock);
    shard.takes.set(shard.takes.get() + 1);
    Span* first = nullptr;
    for (u32 looks = 0; !carved.complete() && looks < kLooks; ++looks) {
      const PageNumber number = find(shard, least, sure, fits);
      if (number == 0) break;
      Span* slice = slice_of(number);
      Span* span = first_record(slice);
      if (first != nullptr && span != first) break;
      first = span;
      UnitMap map = map_of(span);
      const u32 page = static_cast<u32>(slice - span) * kPagesPerSlice + number % kPagesPerSlice;
      Hole whole = map.record(page).hole();
      whole.at += page * kUnitsPerPage;
      const u32 before = carved.count;
      u64 pages = 0;
      const u32 left = carved.hole(span, map, whole, &pages, [&](Hole hole) { hole_grew(shard, map, span, hole); });
      hole_shrank(shard, map, span, whole, left);
      set_live(shard, span, span->live_units.get() + (carved.count - before) * piece.units);
      absent = carved.count > before && is_absent(span, found[before]);
      span->absent.set(span->absent.get() & ~pages);
    }
  }
  // Written to without the lock: the holes may not be resident.
  if (most == 1 && carved.count == 1) return fresh_block(found[0], absent);
  Block* first = nullptr;
  while (carved.count > 0) {
    Block* block = reinterpret_cast<Block*>(found[--carved.count]);
    set_next(block, first);
    first = block;
  }
  return first;
}

}  // namespace coffer
