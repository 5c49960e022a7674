// SPDX-License-Identifier: MIT
#include "span/remote_word.hpp"

#include <gtest/gtest.h>

namespace coffer {
namespace {

constexpr u32 kTagBits = 64 - RemoteWord::kFirstBits - RemoteWord::kCountBits - RemoteWord::kStateBits;
constexpr u32 kMaxTag = (1u << kTagBits) - 1;
constexpr u32 kMaxFirst = (1u << RemoteWord::kFirstBits) - 1;

TEST(RemoteWord, FieldsDoNotTouchEachOther) {
  for (u32 number = 0; number < kSpanStates; ++number) {
    const SpanState state = static_cast<SpanState>(number);
    for (const u32 tag : {0u, 1u, 12345u, kMaxTag}) {
      for (const u32 count : {0u, 1u, 2048u, RemoteWord::kMaxCount}) {
        for (const u32 first : {0u, 1u, 16384u, kMaxFirst}) {
          const RemoteWord word = RemoteWord::make(tag, state, count, first);
          EXPECT_EQ(word.tag(), tag);
          EXPECT_EQ(word.state(), state);
          EXPECT_EQ(word.count(), count);
          EXPECT_EQ(word.first(), first);
          EXPECT_EQ(RemoteWord(word.bits()).bits(), word.bits());
        }
      }
    }
  }
}

TEST(RemoteWord, ZeroIsAFreeRecord) {
  const RemoteWord word(0);
  EXPECT_EQ(word.state(), SpanState::free);
  EXPECT_EQ(word.count(), 0u);
  EXPECT_EQ(word.first(), 0u);
  EXPECT_EQ(word.tag(), 0u);
}

TEST(RemoteWord, ChangesOnlyWhatIsNamed) {
  const RemoteWord word = RemoteWord::make(99, SpanState::shared, 17, 4711);
  const RemoteWord state = word.with_state(SpanState::listed);
  EXPECT_EQ(state.bits(), RemoteWord::make(99, SpanState::listed, 17, 4711).bits());
  const RemoteWord more = word.with(SpanState::claimed, 18, 5);
  EXPECT_EQ(more.bits(), RemoteWord::make(99, SpanState::claimed, 18, 5).bits());
}

TEST(RemoteWord, ANewLifeIsEmptyAndHasANewTag) {
  const RemoteWord word = RemoteWord::make(41, SpanState::shared, 17, 4711).next_life(SpanState::free);
  EXPECT_EQ(word.bits(), RemoteWord::make(42, SpanState::free, 0, 0).bits());
  // The tag begins again, and nothing runs over.
  EXPECT_EQ(RemoteWord::make(kMaxTag, SpanState::free, 0, 0).next_life(SpanState::owned).bits(),
            RemoteWord::make(0, SpanState::owned, 0, 0).bits());
}

// What a push decided by the claim_at before must fail.
TEST(RemoteWord, AnotherClaimHasANewTagAndTheSameList) {
  const RemoteWord word = RemoteWord::make(41, SpanState::claimed, 17, 4711);
  EXPECT_EQ(word.owned().bits(), RemoteWord::make(42, SpanState::owned, 17, 4711).bits());
  EXPECT_EQ(word.owned(5).bits(), RemoteWord::make(42, SpanState::owned, 5, 4711).bits());
  EXPECT_EQ(RemoteWord::make(kMaxTag, SpanState::owned, 1, 2).owned().bits(),
            RemoteWord::make(0, SpanState::owned, 1, 2).bits());
}

TEST(RemoteWord, EverySpanFits) {
  for (const ClassLayout& layout : kLayout) {
    EXPECT_LE(layout.capacity, RemoteWord::kMaxCount);
    const u32 last = layout.first + (layout.capacity - 1) * layout.block_bytes;
    EXPECT_LE(last / kQuantum + 1, kMaxFirst);
  }
}

TEST(RemoteWord, StatesArePrivateOrSharedOrNeither) {
  for (u32 number = 0; number < kSpanStates; ++number) {
    const SpanState state = static_cast<SpanState>(number);
    const bool one = state == SpanState::owned || state == SpanState::claimed;
    const bool none = state == SpanState::shared || state == SpanState::listed;
    EXPECT_EQ(is_private(state), one);
    EXPECT_EQ(is_shared(state), none);
    EXPECT_EQ(state == SpanState::free || state == SpanState::mixed, !one && !none);
  }
}

}  // namespace
}  // namespace coffer
