// SPDX-License-Identifier: MIT
// Traces that were damaged or cut short: what lies in frames that are whole is read, all of it and nothing else, and
// the rest is counted (issue 16).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "trace/reader.hpp"
#include "trace/writer.hpp"

namespace coffer::trace {
namespace {

constexpr u64 kFrames = 60, kBlocks = 40, kSeeds = 400;

struct Random {
  u64 state;
  u64 below(u64 limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
  }
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Each block has a size of its own, which tells its frame: (size - 1) / kBlocks. Three threads allocate, and each frees
// and moves blocks of the others, of this frame and of those before. An address comes again two frames later.
std::string make_trace(Blocks blocks) {
  const std::string path = testing::TempDir() + "coffer_damage_test." + std::to_string(getpid());
  Writer writer(path, {{"program", "test"}}, blocks);
  u64 time = 0;
  const auto put = [&](Op op, u64 block, u64 size) {
    Record record;
    record.op = op;
    record.time = time += 1000;
    record.a = size;
    record.b = record.old = blocks == Blocks::identities ? block : 0x1000 * (1 + block % (2 * kBlocks));
    record.stack = op == Op::malloc ? 1 : 0;
    writer.append(static_cast<u32>(1 + (block + (op == Op::free ? 1 : 0)) % 3), record);
  };
  for (u64 frame = 0; frame < kFrames; ++frame) {
    if (frame == 0) writer.stack(1, 0, 1, {1, 2, 3});
    for (u64 i = 1; i <= kBlocks; ++i) {
      const u64 block = frame * kBlocks + i;
      put(Op::malloc, block, block);
      if (i % 5 == 0) put(Op::realloc, block, block);
      if (frame > 0) put(Op::free, block - kBlocks, 0);
    }
    writer.flush();
  }
  writer.close({{"end", "exited"}});
  const std::string bytes = contents(path);
  ::unlink(path.c_str());
  return bytes;
}

struct Found {
  std::set<u64> sizes;  // of all allocations
  Missing missing;
  bool complete;
  std::string shortfall;
};

Found read(const std::string& bytes) {
  Found found;
  Reader reader(from_memory(bytes.data(), bytes.size()));
  u64 last = 0;
  std::set<u64> live, ever;
  for (Event event; reader.next(event);) {
    EXPECT_GE(event.time, last);
    last = event.time;
    if (event.op == Op::malloc) {
      EXPECT_TRUE(found.sizes.insert(event.size).second);
    }
    if (event.op == Op::malloc || (event.flags & kUnknownBefore) != 0) {
      EXPECT_TRUE(ever.insert(event.block).second);
      live.insert(event.block);
    } else if (event.op == Op::free) {
      EXPECT_EQ(live.erase(event.block), 1u);
    } else if (event.op == Op::realloc) {
      EXPECT_EQ(live.count(event.block), 1u);
    }
  }
  EXPECT_EQ(live.size(), reader.summary().live_blocks);
  found.missing = reader.file().missing();
  found.complete = reader.file().complete();
  found.shortfall = reader.file().shortfall();
  return found;
}

// Where the frames of a whole trace lie.
struct Layout {
  explicit Layout(const std::string& bytes) {
    FrameFile file(from_memory(bytes.data(), bytes.size()));
    for (const Frame& frame : file.frames()) {
      begins.push_back(frame.offset);
      records.push_back(frame.head.records);
    }
    begins.push_back(file.frames().back().end());  // the footer
  }
  std::vector<u64> begins;
  std::vector<u64> records;

  std::set<u64> sizes_but(const std::set<u64>& lost) const {
    std::set<u64> sizes;
    for (u64 frame = 0; frame < kFrames; ++frame) {
      for (u64 i = 1; i <= kBlocks && lost.count(frame) == 0; ++i) sizes.insert(frame * kBlocks + i);
    }
    return sizes;
  }
  u64 records_of(const std::set<u64>& lost) const {
    u64 sum = 0;
    for (const u64 frame : lost) sum += frame < kFrames ? records[frame] : 0;
    return sum;
  }
  // kFrames: of the footer; -1: of the head.
  std::ptrdiff_t frame_of(u64 byte) const {
    return std::upper_bound(begins.begin(), begins.end(), byte) - begins.begin() - 1;
  }
};

class Damage : public testing::TestWithParam<Blocks> {
 protected:
  const std::string whole_ = make_trace(GetParam());
  const Layout layout_{whole_};
};

TEST_P(Damage, NoneIsNone) {
  const Found found = read(whole_);
  ASSERT_EQ(layout_.records.size(), kFrames);
  EXPECT_EQ(found.sizes, layout_.sizes_but({}));
  EXPECT_FALSE(found.missing.any());
  EXPECT_EQ(found.shortfall, "");
}

TEST_P(Damage, ACutLosesWhatComesAfterIt) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const u64 length = 1 + Random{seed}.below(whole_.size() - 1);
    const std::string part = whole_.substr(0, length);
    const std::ptrdiff_t cut = layout_.frame_of(length);
    if (cut < 0) {
      EXPECT_THROW(read(part), Error) << length;
      continue;
    }
    std::set<u64> lost;
    for (u64 frame = static_cast<u64>(cut); frame < kFrames; ++frame) lost.insert(frame);
    const Found found = read(part);
    EXPECT_EQ(found.sizes, layout_.sizes_but(lost)) << length;
    EXPECT_EQ(found.missing.bytes, length - layout_.begins[static_cast<u64>(cut)]) << length;
    EXPECT_FALSE(found.complete);
    EXPECT_NE(found.shortfall.find("cut off"), std::string::npos);
  }
}

TEST_P(Damage, FlippedBytesLoseTheirFrames) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    std::string damaged = whole_;
    Random random{seed};
    std::set<u64> places, lost;
    while (places.size() < 4) places.insert(random.below(whole_.size()));
    bool is_head = false, is_footer = false;
    for (const u64 place : places) {
      damaged[place] = static_cast<char>(static_cast<u64>(damaged[place]) ^ (1 + random.below(255)));
      const std::ptrdiff_t frame = layout_.frame_of(place);
      is_head = is_head || frame < 0;
      is_footer = is_footer || frame == kFrames;
      if (frame >= 0 && frame < static_cast<std::ptrdiff_t>(kFrames)) lost.insert(static_cast<u64>(frame));
    }
    const Found found = read(damaged);
    EXPECT_EQ(found.sizes, layout_.sizes_but(lost)) << seed;
    EXPECT_EQ(found.missing.is_head, is_head) << seed;
    if (!is_footer) {
      EXPECT_TRUE(found.complete);
      EXPECT_EQ(found.missing.records, layout_.records_of(lost)) << seed;
      EXPECT_EQ(found.missing.frames, lost.size()) << seed;
    }
    u64 bytes = is_head ? layout_.begins[0] : 0;
    for (const u64 frame : lost) bytes += layout_.begins[frame + 1] - layout_.begins[frame];
    if (is_footer) bytes += whole_.size() - layout_.begins[kFrames];
    EXPECT_EQ(found.missing.bytes, bytes) << seed;
    EXPECT_NE(found.shortfall, "");
  }
}

// A sector of zeros, bytes that are gone, bytes that came in between.
TEST_P(Damage, OtherWaysLoseTheirFrames) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    Random random{seed};
    const u64 first = layout_.begins[0] + random.below(layout_.begins[kFrames] - layout_.begins[0] - 700);
    const u64 length = 1 + random.below(600);
    const auto begin = static_cast<u64>(layout_.frame_of(first)),
               end = static_cast<u64>(layout_.frame_of(first + length));
    std::set<u64> lost;
    for (u64 frame = begin; frame <= end && frame < kFrames; ++frame) lost.insert(frame);
    std::string damaged = whole_;
    switch (seed % 3) {
      case 0:
        damaged.replace(first, length, length, '\0');
        break;
      case 1:
        damaged.erase(first, length);
        break;
      default:
        for (u64 i = 0; i < length; ++i)
          damaged.insert(damaged.begin() + static_cast<std::ptrdiff_t>(first), static_cast<char>(random.below(256)));
        break;
    }
    const Found found = read(damaged);
    // What is left of a frame at either edge may be whole: at least the others are there, and no record is wrong.
    const std::set<u64> least = layout_.sizes_but(lost);
    EXPECT_TRUE(std::includes(found.sizes.begin(), found.sizes.end(), least.begin(), least.end())) << seed;
    EXPECT_LE(*found.sizes.rbegin(), kFrames * kBlocks);
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(found.sizes.size() + found.missing.frames * kBlocks, kFrames * kBlocks) << seed;
    EXPECT_NE(found.shortfall, "") << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Damage, testing::Values(Blocks::addresses, Blocks::identities));

}  // namespace
}  // namespace coffer::trace
