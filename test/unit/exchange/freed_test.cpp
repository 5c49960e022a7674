// SPDX-License-Identifier: MIT
// Blocks that are freed twice, and free blocks that are written to: by one thread and by two, with few neighbours and
// with many.
#include "exchange/freed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <string>

#include "heaps.hpp"
#include "mixed/mixed.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kSizes[] = {8, 24, 64, 200, 1024, 5000, 20'000, 60'000, 100'000, 1 << 20};
constexpr usize kSmallSizes[] = {8, 24, 64, 200, 1024, 5000, 20'000, 60'000};
constexpr usize kLive[] = {0, 64, 20'000};
constexpr usize kMostLive = 256 << 20;  // bytes

struct Scene {
  usize size;
  Worker other;
  void* victim;
  void* second;
  Blocks more;  // of the same size
};
using Act = void (*)(Scene&);

// Acts in a process of its own, among so many live blocks. Says which block is the victim.
Outcome act(Act crime, usize size, usize live) {
  return outcome_of([&] {
    start_heaps();
    Scene scene{size, {}, nullptr, nullptr, {}};
    take_many(std::min(live, kMostLive / size), size);
    scene.more = take_many(size <= kLargestSmall ? 300 : 10, size);
    scene.victim = take(size);
    scene.second = take(size);
    std::fprintf(stderr, "%p\n", scene.victim);
    crime(scene);
  });
}

// "0x...\ncoffer: ... 0x...: WHAT ...\n" with the same address twice.
bool says(const Outcome& outcome, const std::string& begin, std::initializer_list<const char*> whats) {
  const std::string address = outcome.errors.substr(0, outcome.errors.find('\n'));
  for (const char* what : whats) {
    if (outcome.errors.rfind(address + "\ncoffer: " + begin + " " + address + ": " + what, 0) == 0) return true;
  }
  return false;
}

void expect_reported(Act crime) {
  for (const usize size : kSizes) {
    for (const usize live : kLive) {
      const Outcome outcome = act(crime, size, live);
      EXPECT_TRUE(outcome.aborted() && says(outcome, "free of", {"already free", "in a span that is free"}))
          << "size " << size << " among " << live << ": " << outcome.errors;
    }
  }
}

FRESH_TEST(Freed, AgainAtOnce) {
  expect_reported([](Scene& scene) { give(scene.victim), give(scene.victim); });
}

FRESH_TEST(Freed, AgainAfterOneOther) {
  expect_reported([](Scene& scene) { give(scene.victim), give(scene.second), give(scene.victim); });
}

FRESH_TEST(Freed, AgainAfterManyOthers) {
  expect_reported([](Scene& scene) {
    give(scene.victim);
    give_many(scene.more);
    give(scene.victim);
  });
}

FRESH_TEST(Freed, AgainAfterItsNeighbourWasUsedAgain) {
  expect_reported([](Scene& scene) {
    give(scene.victim);
    give(scene.second);
    void* used = take(scene.size);
    if (used == scene.victim) give(used);  // of large blocks it may be this one
    give(scene.victim);
  });
}

FRESH_TEST(Freed, HereAndThenByAnother) {
  expect_reported([](Scene& scene) {
    give(scene.victim);
    scene.other.run([&] { give(scene.victim); });
  });
}

FRESH_TEST(Freed, ByAnotherAndThenHere) {
  expect_reported([](Scene& scene) {
    scene.other.run([&] { give(scene.victim); });
    give(scene.victim);
  });
}

FRESH_TEST(Freed, ByAnotherTwiceWithOneBetween) {
  expect_reported(
      [](Scene& scene) { scene.other.run([&] { give(scene.victim), give(scene.second), give(scene.victim); }); });
}

// What was on a chain is on the span's remote list, or came by mail.
FRESH_TEST(Freed, ByAnotherWithManyMoreAndThenByEither) {
  constexpr Act kHere = [](Scene& scene) {
    scene.other.run([&] { give(scene.victim), give_many(scene.more), close_chains(own_heap()); });
    give(scene.victim);
  };
  expect_reported(kHere);
  expect_reported([](Scene& scene) {
    scene.other.run([&] { give(scene.victim), give_many(scene.more), close_chains(own_heap()); });
    scene.other.run([&] { give(scene.victim); });
  });
}

// The other's chain stays open, and the fast path puts blocks there as before.
FRESH_TEST(Freed, ByAnotherTwiceAfterItsSpanBecameMixed) {
  for (const u32 between : {0u, 1u, 20u}) {
    const Outcome outcome = outcome_of([&] {
      start_heaps();
      const Blocks blocks = take_many(3000, 48);
      Span* const span = span_of(blocks[1500]);
      Blocks here;
      std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(here), [=](void* b) { return span_of(b) == span; });
      Worker other;
      other.run([&] { give(here[0]); });
      if (!claim(span) || !g_mixed_pool.convert(span)) std::fputs("not converted\n", stderr);
      other.run([&] {
        give(here[1]);
        for (u32 i = 0; i < between; ++i) give(here[2 + i]);
        give(here[1]);
        std::fputs("not seen at once\n", stderr);
      });
    });
    EXPECT_TRUE(outcome.aborted()) << between;
    EXPECT_EQ(outcome.errors.find("not seen at once"), std::string::npos) << between;
    EXPECT_NE(outcome.errors.find("already free"), std::string::npos) << between << ": " << outcome.errors;
  }
}

FRESH_TEST(Freed, AfterItsOwnerHasEnded) {
  for (const usize size : kSmallSizes) {
    const Outcome outcome = act(
        [](Scene& scene) {
          Blocks theirs;
          scene.other.run([&] { give((theirs = take_many(300, scene.size))[7]); });
          scene.other.end();
          give(theirs[7]);
        },
        size, 64);
    EXPECT_TRUE(outcome.aborted()) << size;
    EXPECT_NE(outcome.errors.find("already free"), std::string::npos) << size << ": " << outcome.errors;
  }
}

// --- What is on no list of its class any more. ---

FRESH_TEST(Freed, InASpanThatCameBackWithAnotherClass) {
  for (const usize first : {usize{64}, usize{1024}, usize{100'000}}) {
    for (u32 i = 0; i < 24; ++i) {
      const Outcome outcome = outcome_of([&] {
        start_heaps();
        const usize count = (usize{4} << 20) / first;
        const Blocks old = take_many(count, first);
        for (void* block : old) std::memset(block, 0x41, first);
        give_many(old);
        release_idle(own_heap());
        const Blocks others = take_many(40, 48);
        void* victim = old[i * (count - 1) / 23];
        // Handed out again, it is another block.
        if (std::find(others.begin(), others.end(), victim) != others.end()) std::abort();
        give(victim);
      });
      EXPECT_TRUE(outcome.aborted()) << first << ", block " << i;
    }
  }
}

// --- Free blocks that are written to. ---

void expect_found(Act crime) {
  for (const usize size : kSmallSizes) {
    for (const usize live : kLive) {
      const Outcome outcome = act(crime, size, live);
      EXPECT_TRUE(outcome.aborted() && says(outcome, "free block", {"written to after it was freed"}))
          << "size " << size << " among " << live << ": " << outcome.errors;
    }
  }
}

template <class Write>
void write_and_take(Scene& scene, Write&& write) {
  give(scene.second);
  give(scene.victim);
  write(static_cast<Block*>(scene.victim));
  for (u32 i = 0; i < 3; ++i) take(scene.size);
}

uptr g_target[4];

FRESH_TEST(Written, AForgedLinkIsNotFollowed) {
  expect_found([](Scene& scene) {
    write_and_take(scene, [](Block* block) { block->link = reinterpret_cast<Block*>(g_target); });
  });
}

FRESH_TEST(Written, AnOverflowOfEightBytesIsNotFollowed) {
  expect_found([](Scene& scene) {
    write_and_take(scene, [](Block* block) { std::memset(static_cast<void*>(block), 0x41, 8); });
  });
}

FRESH_TEST(Written, BothWordsAreFound) {
  expect_found([](Scene& scene) {
    write_and_take(scene, [](Block* block) { std::memset(static_cast<void*>(block), 0x41, 16); });
  });
  expect_found(
      [](Scene& scene) { write_and_take(scene, [](Block* block) { std::memset(static_cast<void*>(block), 0, 16); }); });
  expect_found([](Scene& scene) { write_and_take(scene, [](Block* block) { block->mark += 16; }); });
}

FRESH_TEST(Written, OnTheWayFromAnotherThread) {
  expect_found([](Scene& scene) {
    scene.other.run([&] {
      give(scene.second);
      give(scene.victim);
      give_many(scene.more);
      static_cast<Block*>(scene.victim)->link = reinterpret_cast<Block*>(g_target);
      close_chains(own_heap());
    });
    for (u32 i = 0; i < 100'000; ++i) take(scene.size);
  });
}

// A program that writes to its free block before it frees it again takes the mark away: that is found before the block
// is handed out a second time.
FRESH_TEST(Written, NoBlockIsHandedOutTwice) {
  for (const usize size : kSmallSizes) {
    const Outcome outcome = act(
        [](Scene& scene) {
          give(scene.victim);
          give(scene.second);
          static_cast<Block*>(scene.victim)->mark = 0;
          give(scene.victim);
          std::set<void*> taken;
          for (u32 i = 0; i < 400; ++i) {
            if (!taken.insert(take(scene.size)).second) std::fputs("two owners\n", stderr);
          }
        },
        size, 64);
    EXPECT_TRUE(outcome.aborted()) << size;
    EXPECT_EQ(outcome.errors.find("two owners"), std::string::npos) << size;
  }
}

// --- Nobody is stopped for what merely looks like it. ---

FRESH_TEST(Freed, ABlockThatHasTheByteIsFreed) {
  start_heaps();
  for (const usize size : kSmallSizes) {
    void* block = take(size);
    std::memset(block, kMarkByte, 16);
    give(block);
    EXPECT_EQ(take(size), block) << size;
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Freed, ABlockWithAnothersWordsIsFreed) {
  start_heaps();
  const Blocks blocks = take_many(4);
  give(blocks[0]);
  give(blocks[1]);
  std::memcpy(blocks[2], blocks[1], sizeof(Block));
  EXPECT_TRUE(is_freed(span_of(blocks[1]), blocks[1]));
  EXPECT_FALSE(is_freed(span_of(blocks[2]), blocks[2]));
  EXPECT_FALSE(is_freed(span_of(blocks[3]), blocks[3]));
  give(blocks[2]);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  EXPECT_EQ(take(), blocks[2]);
  EXPECT_EQ(take(), blocks[1]);
  EXPECT_EQ(take(), blocks[0]);
  EXPECT_EQ(check_everything(), 0u);
}

// What a large block has in its first words when it is handed out is no mark: the program may copy it.
FRESH_TEST(Freed, ALargeBlockThatComesBackBearsNoMark) {
  start_heaps();
  for (const usize size : {usize{70'000}, usize{300'000}, usize{3'000'000}}) {
    for (u32 i = 0; i < 3; ++i) {
      void* large = take(size);
      EXPECT_FALSE(may_be_free(large)) << size;
      give(large);
    }
  }
}

}  // namespace
}  // namespace coffer
