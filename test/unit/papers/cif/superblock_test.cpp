// SPDX-License-Identifier: MIT
// Where colour, header and blocks of a superblock lie, for every combination of options; and the survey that the paper
// makes of them (figure 1), as arithmetic.
#include "papers/cif/superblock.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

namespace coffer::cif {
namespace {

constexpr usize kOsPage = 4096;

Settings settings_of(config::Options options) { return make_settings(options, kOsPage); }

// Calls visit(settings) for every combination that a user can choose.
template <class Visit>
void for_all_settings(Visit&& visit) {
  for (const u64 superblock : {16 * config::kKiB, 64 * config::kKiB, config::kMiB}) {
    for (const ArrayRule array : {ArrayRule::punctuated, ArrayRule::multiple, ArrayRule::flat}) {
      for (const ClassRule classes : {ClassRule::powers, ClassRule::halves, ClassRule::odd, ClassRule::adjusted}) {
        for (const ColourPlace place : {ColourPlace::before, ColourPlace::after, ColourPlace::none}) {
          for (const u32 colours : {1u, 16u, 4096u}) {
            for (const u64 line : {16, 64, 256}) {
              config::Options options;
              options.superblock = superblock;
              options.array = array;
              options.classes = classes;
              options.colour = place;
              options.colours = colours;
              options.line = line;
              options.align = (colours + line / 16 + superblock / 16384) % 2 == 0;
              visit(settings_of(options));
            }
          }
        }
      }
    }
  }
}

TEST(CifSuperblock, NothingLiesOnAnythingElse) {
  for_all_settings([](const Settings& settings) {
    for (u32 c = 0; c < settings.class_count; c += 1 + settings.class_count / 50) {
      for (u32 colour = 0; colour < settings.colours; colour += 1 + settings.colours / 5) {
        const usize block = settings.classes.bytes(c);
        const Layout layout = lay_out(settings, block, colour);
        ASSERT_GE(layout.capacity, 1u) << block;
        ASSERT_EQ(layout.header % settings.cache.line, 0u);
        ASSERT_GE(layout.first - kHeaderWord, layout.header + sizeof(Superblock));
        const usize last = layout.first - kHeaderWord + layout.array.offset(layout.capacity - 1);
        ASSERT_LE(last + block, settings.superblock) << block;
        // Another block would not fit.
        ASSERT_GT(layout.first - kHeaderWord + layout.array.offset(layout.capacity) + block, settings.superblock);
        ASSERT_EQ(layout.first % 16, 0u);
      }
    }
  });
}

TEST(CifSuperblock, DataStartsOnLinesAndItsHeaderEndsTheLineBefore) {
  for_all_settings([](const Settings& settings) {
    const u32 line = settings.cache.line;
    for (u32 c = 0; c < settings.class_count; c += 1 + settings.class_count / 50) {
      const usize block = settings.classes.bytes(c);
      const Layout layout = lay_out(settings, block, settings.colours - 1);
      for (usize n = 0; n < layout.capacity && n < 200; ++n) {
        const usize data = layout.first + layout.array.offset(n);
        if (block >= line) {
          ASSERT_EQ(data % line, settings.shift);
        } else {
          // Several on a line; each stays within one.
          ASSERT_EQ((data - settings.shift) % block, 0u);
          ASSERT_EQ((data - settings.shift) / line, (data - settings.shift + block - 1) / line);
        }
      }
    }
  });
}

TEST(CifSuperblock, TheColourComesBeforeTheHeaderOrAfterIt) {
  config::Options options;
  const Settings before = settings_of(options);
  options.colour = ColourPlace::after;
  const Settings after = settings_of(options);
  options.colour = ColourPlace::none;
  EXPECT_EQ(settings_of(options).colours, 1u);
  EXPECT_EQ(before.colours, 16u);  // section 5
  const usize flat_first = lay_out(before, 128, 0).first;
  for (u32 colour = 0; colour < 16; ++colour) {
    EXPECT_EQ(lay_out(before, 128, colour).header, colour * 64u);
    EXPECT_EQ(lay_out(before, 128, colour).first, flat_first + colour * 64u);
    EXPECT_EQ(lay_out(after, 128, colour).header, 0u);
    EXPECT_EQ(lay_out(after, 128, colour).first, flat_first + colour * 64u);
  }
}

TEST(CifSettings, AreMadeConsistent) {
  config::Options options;
  Settings settings = settings_of(options);
  EXPECT_EQ(settings.superblock, 65536u);
  EXPECT_EQ(settings.class_count, 12u);
  EXPECT_EQ(settings.largest_block, 32768u);
  EXPECT_EQ(settings.empty_log2, 2u);
  EXPECT_EQ(settings.k, 4u);
  options.superblock = 65537;
  options.colours = 4096;
  options.line = 33;
  options.page = 1025;
  options.align = false;
  settings = settings_of(options);
  EXPECT_EQ(settings.superblock, 131072u);
  EXPECT_EQ(settings.cache.line, 64u);
  EXPECT_EQ(settings.cache.page, 2048u);
  EXPECT_EQ(settings.colours, 131072u / 4 / 64);
  EXPECT_EQ(settings.shift, 16u);
  options.line = 16;
  EXPECT_EQ(settings_of(options).shift, 0u);  // every block is on a line of 16 bytes
  options.superblock = 16384;
  EXPECT_EQ(make_settings(options, 65536).superblock, 65536u);  // a page of the kernel at least
  options.classes = ClassRule::adjusted;
  options.line = 64;
  options.page = 4096;
  options.superblock = 65536;
  EXPECT_EQ(settings_of(options).largest_block, 16384u + 64);  // 32 KiB and a line are more than half
}

// Indices of the first 256 blocks of a class, in superblocks with these colours: figure 1 by arithmetic.
usize indices_of_256(const Settings& settings, usize size, const std::vector<u32>& colours) {
  std::set<usize> seen;
  usize left = 256;
  for (usize s = 0; left > 0; ++s) {
    const u32 c = settings.classes.of_request(size);
    const Layout layout = lay_out(settings, settings.classes.bytes(c), colours[s % colours.size()] % settings.colours);
    for (usize n = 0; n < layout.capacity && left > 0; ++n, --left) {
      seen.insert((layout.first + layout.array.offset(n)) / settings.cache.line % settings.cache.indices());
    }
  }
  return seen.size();
}

std::vector<u32> all_colours(u32 count) {
  std::vector<u32> colours(count);
  for (u32 i = 0; i < count; ++i) colours[i] = i * 7 % count;
  return colours;
}

TEST(CifSurvey, OnThePapersMachineEverySizeToHalfAKibReachesAllIndices) {
  config::Options options;
  options.line = 16;
  options.page = 2048;
  const Settings cif = settings_of(options);
  options.array = ArrayRule::flat;
  const Settings ciu = settings_of(options);
  for (usize size = 16; size <= 504; size += 16) {
    EXPECT_EQ(indices_of_256(cif, size, all_colours(16)), 128u) << size;
  }
  // CIU without colours: what a binary buddy allocator would do.
  options.colours = 1;
  const Settings plain = settings_of(options);
  EXPECT_EQ(indices_of_256(plain, 100, {0}), 16u);  // blocks of 128: section 1's example
  EXPECT_EQ(indices_of_256(plain, 2000, {0}), 1u);
  EXPECT_LT(indices_of_256(ciu, 2000, all_colours(16)), 20u);
}

// On 64-byte lines a superblock of 64 KiB has 15 cache pages beside its header: 15 spacers and 15 colours move a block
// by at most 30 lines, and blocks of 2 KiB are 32 lines apart.
TEST(CifSurvey, HereClassesFrom2KibOnNeedMoreColoursOrLongerSuperblocks) {
  config::Options options;
  const Settings standard = settings_of(options);
  for (usize size : {56, 120, 248, 504, 1016}) {
    EXPECT_EQ(indices_of_256(standard, size, all_colours(16)), 64u) << size;
  }
  for (usize size : {2040, 4088, 8184, 16376}) {
    EXPECT_LT(indices_of_256(standard, size, all_colours(16)), 64u) << size;
  }
  options.colours = 64;
  const Settings coloured = settings_of(options);
  for (usize size : {2040, 4088, 8184, 16376}) {
    EXPECT_EQ(indices_of_256(coloured, size, all_colours(64)), 64u) << size;
  }
  options.colours = 16;
  options.superblock = 1 << 20;
  const Settings longer = settings_of(options);
  for (usize size : {2040, 4088, 8184}) EXPECT_EQ(indices_of_256(longer, size, all_colours(16)), 64u) << size;
}

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};

TEST(CifSuperblock, BlocksGoOutInOrderAndComeBackLastFirst) {
  const Settings settings = settings_of({});
  const std::unique_ptr<void, Freed> memory(std::aligned_alloc(settings.superblock, settings.superblock));
  for (u32 c = 0; c < settings.class_count; ++c) {
    Superblock* superblock = format(settings, memory.get(), c, 5);
    EXPECT_EQ(memory_of(settings, superblock), memory.get());
    std::vector<void*> blocks;
    while (superblock->used < superblock->capacity) {
      blocks.push_back(take_block(superblock));
      EXPECT_EQ(papers::word_before(blocks.back()), papers::superblock_word(superblock));
      EXPECT_TRUE(blocks.size() == 1 || blocks.back() > blocks[blocks.size() - 2]);
    }
    EXPECT_EQ(check(settings, superblock), 0u);
    for (void* block : blocks) give_block(superblock, block);
    EXPECT_EQ(superblock->used, 0u);
    EXPECT_EQ(check(settings, superblock), 0u);
    EXPECT_EQ(take_block(superblock), blocks.back());
    // A block that is on the list although it is in use is noticed.
    superblock->used = 0;
    EXPECT_NE(check(settings, superblock), 0u);
  }
}

}  // namespace
}  // namespace coffer::cif
