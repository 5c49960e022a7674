// SPDX-License-Identifier: MIT
#include "retain/blocks.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "inspect/description.hpp"
#include "retain/parallel.hpp"
#include "size_class/stride.hpp"

namespace coffer::retain {

namespace {

constexpr usize kWholeBelow = 2048;  // spans of blocks up to this are read whole; of others the beginnings of blocks

// Records of the process, as they stand in its memory: their cells are plain words there.
template <class T>
struct Copies {
  std::unique_ptr<char[]> bytes;
  usize count = 0;
  const T& operator[](usize i) const { return *reinterpret_cast<const T*>(bytes.get() + i * sizeof(T)); }
};
template <class T>
Copies<T> copy(const Memory& memory, const void* at, usize count) {
  Copies<T> copies{std::make_unique<char[]>(count * sizeof(T) + 1), count};
  memory.read(reinterpret_cast<u64>(at), copies.bytes.get(), count * sizeof(T));
  return copies;
}

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool Blocks::find_description(const Memory& memory, const std::vector<Mapping>& mappings, std::string* problem) {
  // The library's own mappings first, for a program may have gigabytes of others.
  for (const bool is_library : {true, false}) {
    for (const Mapping& one : mappings) {
      if (!one.readable || one.shared || one.executable || !begins(one.path, "/")) continue;
      if (begins(base_name(one.path), "libcoffer") != is_library) continue;
      std::vector<char> content(one.end - one.begin);
      memory.read(one.begin, content.data(), content.size());
      for (usize at = 0; at + sizeof(Description) <= content.size(); at += 8) {
        if (std::memcmp(content.data() + at, kDescriptionMagic, sizeof kDescriptionMagic) != 0) continue;
        Description found;
        std::memcpy(&found, content.data() + at, sizeof found);
        if (reinterpret_cast<u64>(found.self) != one.begin + at) continue;
        if (found.fingerprint != records_fingerprint()) {
          *problem = one.path + " and this command are of different versions: use the command of that version";
          return false;
        }
        arenas_at_ = reinterpret_cast<u64>(found.arenas);
        samples_at_ = reinterpret_cast<u64>(found.samples);
        canaries_ = found.canaries != 0;
        library_ = one.path;
        return true;
      }
    }
  }
  bool has_library = false;
  for (const Mapping& one : mappings) has_library |= begins(base_name(one.path), "libcoffer");
  *problem = has_library ? "the Coffer that it runs is older than this command needs" : "it does not run Coffer";
  return false;
}

bool Blocks::is_free(const char* block, usize bytes) const {
  u64 link, mark;
  std::memcpy(&link, block, sizeof link);
  std::memcpy(&mark, block + sizeof link, sizeof mark);
  if (mark == link + key_) return true;
  if (!canaries_) return false;
  u64 trailer;
  std::memcpy(&trailer, block + bytes - sizeof trailer, sizeof trailer);
  return trailer == 0;
}

void Blocks::walk_span(const Memory& memory, const Arena& arena, const Span& span, u32 slice, Found* found) const {
  const Stride stride{span.block_bytes.get(), span.row_log2.get()};
  const u32 slices = span.slices.get(), capacity = span.capacity.get();
  const u64 begin = arena.base + u64{slice} * kSliceBytes, length = u64{slices} * kSliceBytes;
  if (stride.bytes < 16 || stride.bytes % 16 != 0 || slices == 0 || slices > kMaxSpanSlices || stride.row_log2 > 31)
    return;
  if (span.first_block - begin >= length || capacity > length / 16) return;
  const u64 absent = span.absent.get();
  const bool whole = stride.bytes <= kWholeBelow;
  thread_local std::vector<char> content;
  content.resize(length);
  if (whole) memory.read(begin, content.data(), length);
  for (u32 i = 0; i < capacity; ++i) {
    const u64 at = span.first_block + stride.offset(i) - begin;
    if (at + stride.bytes > length) break;
    if (((absent >> (at / kCarvePage)) & 1) != 0) continue;
    if (!whole) {
      memory.read(begin + at, content.data() + at, 16);
      if (canaries_) memory.read(begin + at + stride.bytes - 16, content.data() + at + stride.bytes - 16, 16);
    }
    if (is_free(content.data() + at, stride.bytes)) continue;
    found->starts.push_back(begin + at);
    found->units.push_back(stride.bytes / 16);
  }
}

void Blocks::walk_mixed(const Memory& memory, const Arena& arena, const Span& span, u32 slice, Found* found) const {
  const u32 slices = span.slices.get();
  if (slices == 0 || slices > kMaxSpanSlices) return;
  const u64 begin = arena.base + u64{slice} * kSliceBytes, length = u64{slices} * kSliceBytes;
  u64 words[kMaxSpanSlices * kMapWords];
  memory.read(reinterpret_cast<u64>(arena.unit_maps) + u64{slice} * kUnitMapBytes, words, slices * kUnitMapBytes);
  thread_local std::vector<char> content;
  content.resize(length);
  memory.read(begin, content.data(), length);
  // Not by the map's own walk, which believes that it is whole: a thread may have been in the middle of a change.
  u32 open = 0;
  bool is_open = false;
  const auto close_at = [&](u32 unit) {
    if (is_open && !is_free(content.data() + u64{open} * 16, u64{unit - open} * 16)) {
      found->starts.push_back(begin + u64{open} * 16);
      found->units.push_back(unit - open);
    }
    is_open = false;
  };
  for (u32 unit = 0; unit < slices * kUnitsPerSlice; unit += 64) {
    const u64* pair = words + unit / kUnitsPerSlice * kMapWords + 2 * (unit / 64 % kMapPairs);
    for (u64 starts = pair[0] | pair[1]; starts != 0; starts &= starts - 1) {
      const u32 bit = static_cast<u32>(__builtin_ctzll(starts));
      close_at(unit + bit);
      is_open = ((pair[1] >> bit) & 1) == 0;
      open = unit + bit;
    }
  }
  close_at(slices * kUnitsPerSlice);
}

void Blocks::walk_large(const Memory& memory, const Span& span, Found* found) const {
  u64 at = span.first_block, bytes = span.run_bytes.get() - span.first_block % kSliceBytes;
  if (canaries_) {
    // hardened/fenced.hpp: 0, a block with a canary; 1, pages between closed ones; 2, it rests.
    const u32 fence = span.capacity.get() & 3;
    if (fence == 2) return;
    if (fence == 1) {
      at += span.block_bytes.get();
      bytes = span.multiplier;
    } else {
      u64 trailer = 0;
      if (memory.read(at + bytes / 16 * 16 - sizeof trailer, &trailer) && trailer == 0) return;
    }
  }
  if (bytes == 0 || at % 16 != 0 || bytes / 16 >= kNone) return;
  found->starts.push_back(at);
  found->units.push_back(static_cast<u32>((bytes + 15) / 16));
}

// Those that begin something: of a large block of chunks the first.
std::vector<u32> Blocks::taken_chunks(const Memory& memory, const Arena& arena, u32 end) const {
  const auto groups = copy<Group>(memory, arena.groups, (end + kChunksPerGroup - 1) / kChunksPerGroup);
  const auto chunks = copy<Chunk>(memory, arena.chunks, end);
  std::vector<u32> found;
  for (u32 index = 0; index < end;) {
    u32 length = 1;
    if (((groups[index / kChunksPerGroup].taken.get() >> (index % kChunksPerGroup)) & 1) != 0) {
      found.push_back(index);
      // relaxed, all in this file: nobody writes to a copy
      if (chunks[index].use.load(relaxed) == ChunkUse::large) length = std::max(chunks[index].large_chunks.get(), 1u);
    }
    index += length;
  }
  return found;
}

void Blocks::walk_chunk(const Memory& memory, const Arena& arena, u32 index, Found* found) const {
  const auto chunk = copy<Chunk>(memory, arena.chunks + index, 1);
  const u64 free = chunk[0].free.load(relaxed);
  const u32 slices = chunk[0].use.load(relaxed) == ChunkUse::large ? 1 : kSlicesPerChunk;
  const auto records = copy<Span>(memory, arena.spans + usize{index} * kSlicesPerChunk, slices);
  for (u32 i = 0; i < slices; ++i) {
    if (((free >> i) & 1) != 0) continue;
    const Span& span = records[i];
    const u32 slice = index * kSlicesPerChunk + i;
    const SliceUse use = span.use.load(relaxed);
    if (use == SliceUse::span) walk_span(memory, arena, span, slice, found);
    if (use == SliceUse::mixed) walk_mixed(memory, arena, span, slice, found);
    if (use == SliceUse::large) walk_large(memory, span, found);
  }
}

void Blocks::index_arena(u64 base, u64 bytes, u32 first) {
  Index index{base, bytes, first, std::vector<u64>(bytes / kWordBytes), std::vector<u32>(bytes / kWordBytes)};
  for (u32 i = first; i < count(); ++i) {
    const u64 offset = starts_[i] - base;
    index.bits[offset / kWordBytes] |= u64{1} << (offset % kWordBytes / 16);
  }
  u32 before = first;
  for (usize word = 0; word < index.bits.size(); ++word) {
    index.rank[word] = before;
    before += static_cast<u32>(__builtin_popcountll(index.bits[word]));
  }
  arenas_.push_back(std::move(index));
}

std::string Blocks::find(const Memory& memory, const std::vector<Mapping>& mappings, unsigned threads) {
  std::string problem;
  if (!find_description(memory, mappings, &problem)) return problem;
  own_.push_back({arenas_at_, arenas_at_ + sizeof(ArenaTable)});
  own_.push_back({samples_at_, samples_at_ + sizeof(Samples)});
  const auto table = copy<ArenaTable>(memory, reinterpret_cast<const void*>(arenas_at_), 1);
  const u32 arenas = std::min(table[0].count.load(relaxed), kMaxArenas);
  key_ = table[0].arenas[0].link_key.load(relaxed);
  for (u32 a = 0; a < arenas; ++a) {
    const Arena& arena = table[0].arenas[a];
    own_.push_back({arena.base, arena.base + arena.reserved});
    const u32 end = std::min(arena.highest_chunk.load(relaxed), arena.chunk_count);
    if (end == 0) continue;
    const u32 first = count();
    const std::vector<u32> chunks = taken_chunks(memory, arena, end);
    std::vector<Found> found(chunks.size());
    in_parallel(threads, found.size(), [&](usize i, unsigned) { walk_chunk(memory, arena, chunks[i], &found[i]); });
    for (Found& one : found) {
      starts_.insert(starts_.end(), one.starts.begin(), one.starts.end());
      units_.insert(units_.end(), one.units.begin(), one.units.end());
      one = {};
    }
    if (starts_.size() >= kNone / 2) return "it has more than 2,000 million blocks";
    index_arena(arena.base, u64{end} * kChunkBytes, first);
    const u64 top = std::max(lowest_ + span_, arena.base + u64{end} * kChunkBytes);
    lowest_ = a == 0 ? arena.base : std::min(lowest_, arena.base);
    span_ = top - lowest_;
  }
  for (const u32 units : units_) total_ += u64{units} * 16;
  read_samples(memory);
  return "";
}

// The word is where one block ends and the next begins. It is taken for an end if one of the words before leads into
// that block; but not in a row of pointers to blocks that follow each other, as in a table.
u32 Blocks::edge_at_border(const u64* words, usize i, usize count, u32 to) const {
  if (i + 1 < count && words[i + 1] != words[i] && at(words[i + 1]) == to + 1) return to;
  if (i >= 2 && to >= 2 && at(words[i - 1]) == to - 1 && at(words[i - 2]) == to - 2) return to;
  for (usize back = 1; back <= 3 && back <= i; ++back) {
    if (at(words[i - back]) == to - 1) return to | kWeak;
  }
  return to;
}

void Blocks::read_samples(const Memory& memory) {
  const auto samples = copy<Samples>(memory, reinterpret_cast<const void*>(samples_at_), 1);
  const Samples& known = samples[0];
  if (known.table() == nullptr || known.lives() == nullptr) return;
  const auto table = copy<Samples::Table>(memory, known.table(), 1);
  own_.push_back({reinterpret_cast<u64>(known.table()), reinterpret_cast<u64>(known.table() + 1)});
  own_.push_back({reinterpret_cast<u64>(known.lives()), reinterpret_cast<u64>(known.lives() + known.capacity())});
  const u32 stacks = std::min(known.stacks(), Samples::kStacks);
  call_stacks_.resize(stacks);
  for (u32 i = 0; i < stacks; ++i) {
    const Samples::Stack& one = table[0].stacks[i];
    for (u32 j = 0; j < one.count && one.first + j < Samples::kFrames; ++j) {
      const u32 address = table[0].frames[one.first + j];
      if (address < Samples::kAddresses) call_stacks_[i].push_back(table[0].addresses[address]);
    }
  }
  stacks_.resize(count());
  constexpr u32 kAtOnce = 1 << 16;
  for (u32 from = 0; from < known.capacity(); from += kAtOnce) {
    const auto lives = copy<Samples::Live>(memory, known.lives() + from, std::min(kAtOnce, known.capacity() - from));
    for (usize i = 0; i < lives.count; ++i) {
      const Samples::Live& live = lives[i];
      if (live.block == 0 || live.stack >= stacks) continue;
      const u32 block = at(live.block);
      // Stack 0 is that of samples without one.
      if (block == kNone || live.stack == 0) continue;
      stacks_[block] = live.stack;
      ++sampled_;
    }
  }
}

}  // namespace coffer::retain
