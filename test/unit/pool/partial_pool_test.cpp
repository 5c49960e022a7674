// SPDX-License-Identifier: MIT
#include "pool/partial_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "fresh.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

constexpr ClassIndex kClass = 7;

// Records as spans of a shard and a class; the pool reads no more of them. Slices 0, 1, 2 ... of the first arena.
class Records {
 public:
  explicit Records(u32 shards) {
    EXPECT_TRUE(arenas_start(usize{256} << 20));
    slice_pool_start(shards);
    ChunkRun run;
    EXPECT_TRUE(take_chunks(1, 1, false, &run));
    spans_ = run.arena->spans;
  }
  Span* operator[](u32 index) const { return spans_ + index; }
  Span* make(u32 index, u32 shard, ClassIndex size_class = kClass) const {
    Span* span = spans_ + index;
    span->shard.set(static_cast<u8>(shard));
    span->size_class.set(static_cast<u8>(size_class));
    return span;
  }

 private:
  Span* spans_;
};

std::unique_ptr<PartialPool> make_pool() { return std::make_unique<PartialPool>(); }

bool any(Span*) { return true; }

std::vector<Span*> content(PartialPool& pool) {
  std::vector<Span*> spans;
  pool.for_each([&](Span* span) { spans.push_back(span); });
  return spans;
}

FRESH_TEST(PartialPool, IsEmptyAtFirst) {
  const Records records(4);
  const auto pool = make_pool();
  EXPECT_EQ(pool->adopt(kClass, 0, any), nullptr);
  EXPECT_TRUE(content(*pool).empty());
}

FRESH_TEST(PartialPool, TheLastInIsTheFirstOut) {
  const Records records(1);
  const auto pool = make_pool();
  for (u32 i = 0; i < 3; ++i) {
    EXPECT_FALSE(PartialPool::is_linked(records[i]));
    EXPECT_TRUE(pool->insert(records.make(i, 0)));
    EXPECT_TRUE(PartialPool::is_linked(records[i]));
  }
  for (u32 i = 3; i-- > 0;) {
    EXPECT_EQ(pool->adopt(kClass, 0, any), records[i]);
    EXPECT_FALSE(PartialPool::is_linked(records[i]));
  }
  EXPECT_EQ(pool->adopt(kClass, 0, any), nullptr);
}

FRESH_TEST(PartialPool, KeepsClassesApart) {
  const Records records(1);
  const auto pool = make_pool();
  EXPECT_TRUE(pool->insert(records.make(0, 0, 0)));
  EXPECT_TRUE(pool->insert(records.make(1, 0, kClasses - 1)));
  EXPECT_EQ(pool->adopt(kClass, 0, any), nullptr);
  EXPECT_EQ(pool->adopt(0, 0, any), records[0]);
  EXPECT_EQ(pool->adopt(kClasses - 1, 0, any), records[1]);
}

FRESH_TEST(PartialPool, LooksAtItsOwnShardFirst) {
  const Records records(4);
  const auto pool = make_pool();
  for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(pool->insert(records.make(i, i)));
  EXPECT_EQ(pool->adopt(kClass, 2, any), records[2]);
  EXPECT_EQ(pool->adopt(kClass, 2, any), records[3]) << "then those behind it, around";
  EXPECT_EQ(pool->adopt(kClass, 2, any), records[0]);
  EXPECT_EQ(pool->adopt(kClass, 2, any), records[1]);
}

FRESH_TEST(PartialPool, SkipsWhatCannotBeClaimed) {
  const Records records(2);
  const auto pool = make_pool();
  for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(pool->insert(records.make(i, i / 3)));
  std::vector<Span*> asked;
  Span* got = pool->adopt(kClass, 0, [&](Span* span) {
    asked.push_back(span);
    return span == records[3];
  });
  EXPECT_EQ(got, records[3]);
  EXPECT_EQ(asked, (std::vector<Span*>{records[2], records[1], records[0], records[3]}));
  EXPECT_EQ(content(*pool), (std::vector<Span*>{records[2], records[1], records[0]}));
}

// A span that is put in where the search has looked already, while it looks elsewhere, is found all the same: else a
// maker that is held up between two shards makes what is there (docs/design/bound.md, lemma 1).
FRESH_TEST(PartialPool, MissesNothingThatIsPutInBehindTheSearch) {
  for (const bool looked_at : {false, true}) {
    const Records records(4);
    const auto pool = make_pool();
    EXPECT_TRUE(pool->insert(records.make(3, 3)));
    Span* late = records.make(0, 0);
    const auto claim = [&](Span* span) {
      if (span == late) return true;
      if (!PartialPool::is_linked(late)) {
        EXPECT_TRUE(looked_at ? pool->insert_looked_at(late) : pool->insert(late));
      }
      return false;  // it is returning
    };
    EXPECT_EQ(pool->adopt(kClass, 0, claim), late);
    EXPECT_EQ(pool->adopt(kClass, 0, claim), late) << "it was put in again";
    EXPECT_EQ(pool->adopt(kClass, 0, [](Span*) { return false; }), nullptr);
    EXPECT_EQ(content(*pool), std::vector<Span*>{records[3]});
  }
}

// Whoever looks without the lock finds the list empty only when the claim is made, and counted.
FRESH_TEST(PartialPool, AListThatASpanIsTakenFromIsNotEmptyBeforeTheClaim) {
  const Records records(1);
  const auto pool = make_pool();
  EXPECT_TRUE(pool->insert(records.make(0, 0)));
  std::thread other;
  std::atomic<bool> began = false, found_none = false;
  const auto look = [&] {
    began = true;
    found_none = pool->adopt(kClass, 0, any) == nullptr;
  };
  const auto claim = [&](Span*) {
    other = std::thread(look);
    while (!began) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(found_none);
    return true;
  };
  EXPECT_EQ(pool->adopt(kClass, 0, claim), records[0]);
  other.join();
  EXPECT_TRUE(found_none);
}

// From the front, the middle and the end: every order in which four spans can leave.
// From the claim on others may end the span, and its record's next life begins: it is on no list any more by then.
// Where the claim fails it is as it was.
FRESH_TEST(PartialPool, IsLeftBeforeTheClaim) {
  const Records records(1);
  const auto pool = make_pool();
  for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(pool->insert(records.make(i, 0), 1024));
  const std::vector<Span*> before = content(*pool);
  const usize waiting = pool->waiting_bytes(), listed = pool->listed_bytes();
  u32 asked = 0;
  const auto refuse = [&](Span* span) {
    EXPECT_FALSE(PartialPool::is_linked(span));
    ++asked;
    return false;
  };
  EXPECT_EQ(pool->adopt(kClass, 0, refuse), nullptr);
  EXPECT_EQ(pool->take_waiting(kClass, 0, 0, refuse), nullptr);
  EXPECT_EQ(asked, 8u);
  EXPECT_EQ(content(*pool), before);
  EXPECT_EQ(pool->waiting_bytes(), waiting);
  EXPECT_EQ(pool->listed_bytes(), listed);
  // The next life of the record, made by others while the claim goes on: its links are another list's.
  Span* next_life = nullptr;
  EXPECT_EQ(pool->adopt(kClass, 0,
                        [&](Span* span) {
                          span->size_class.set(kClass + 1);
                          span->next.set(77);
                          next_life = span;
                          return true;
                        }),
            before[0]);
  EXPECT_EQ(next_life->next.get(), 77u);
  EXPECT_EQ(pool->adopt(kClass + 1, 0, any), nullptr);
  for (u32 i = 1; i < 4; ++i) EXPECT_EQ(pool->take_waiting(kClass, 0, 0, any), before[4 - i]);
  EXPECT_TRUE(content(*pool).empty());
  EXPECT_EQ(pool->waiting_bytes(), 0u);
}

FRESH_TEST(PartialPool, AnySpanMayLeave) {
  const Records records(1);
  std::vector<u32> order = {0, 1, 2, 3};
  do {
    const auto pool = make_pool();
    for (u32 i = 0; i < 4; ++i) EXPECT_TRUE(pool->insert(records.make(i, 0)));
    std::vector<Span*> left = {records[3], records[2], records[1], records[0]};
    for (const u32 i : order) {
      EXPECT_TRUE(pool->remove(records[i]));
      left.erase(std::find(left.begin(), left.end(), records[i]));
      EXPECT_EQ(content(*pool), left);
      EXPECT_EQ(records[i]->next.get(), 0u);
      EXPECT_EQ(records[i]->previous.get(), 0u);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

FRESH_TEST(PartialPool, AWalkSeesEveryShardAndClass) {
  const Records records(4);
  const auto pool = make_pool();
  std::vector<Span*> expected;
  for (u32 i = 0; i < 4; ++i) {
    for (const ClassIndex c : {ClassIndex{0}, kClass, kClasses - 1}) {
      Span* span = records.make(static_cast<u32>(expected.size()), i, c);
      EXPECT_TRUE(pool->insert(span));
      expected.push_back(span);
    }
  }
  EXPECT_EQ(content(*pool), expected);
}

// --- Who gives an empty span back. ---
//
// A span gets listed, its inserter comes, its last block is freed, the one who freed it comes, an adopter comes: the
// events of its word (list, empty, adopt) and the calls that follow from them, in every order that can be. Each call is
// one critical section, so these orders are all interleavings.
enum class Word { listed, returning, adopted };
struct Story {
  Word word = Word::listed;
  bool inserted = false;  // insert was called
  bool emptied = false;   // the last block was freed: a remove will be called
  bool removed = false;   // ... and was
  u32 given_back = 0;
  std::string told;
};

class Stories {
 public:
  Stories() : records_(1), pool_(make_pool()) {}

  // Tells every story from here on.
  void tell(const Story& story) {
    // What the pool and the span look like is a matter of the story so far: it is played again for each.
    bool ended = true;
    for (const char event : {'i', 'e', 'r', 'a'}) {
      if (!possible(story, event)) continue;
      ended = false;
      Story longer = story;
      longer.told += event;
      tell(replay(longer.told));
    }
    if (ended) check(story);
  }
  u32 stories() const { return stories_; }

 private:
  static bool possible(const Story& story, char event) {
    switch (event) {
      case 'i':
        return !story.inserted;
      case 'e':
        return story.word == Word::listed;
      case 'r':
        return story.emptied && !story.removed;
      default:  // an adopter comes once at most, and may find nothing
        return story.told.find('a') == std::string::npos;
    }
  }
  void play(Story& story, char event) {
    Span* span = records_[0];
    switch (event) {
      case 'i':
        story.inserted = true;
        if (!pool_->insert(span)) ++story.given_back;
        break;
      case 'e':
        story.word = Word::returning;
        story.emptied = true;
        break;
      case 'r':
        story.removed = true;
        if (pool_->remove(span)) ++story.given_back;
        break;
      default: {
        const Span* got = pool_->adopt(kClass, 0, [&](Span*) {
          if (story.word != Word::listed) return false;
          story.word = Word::adopted;
          return true;
        });
        EXPECT_EQ(got != nullptr, story.word == Word::adopted) << story.told;
        break;
      }
    }
  }
  Story replay(const std::string& events) {
    pool_ = make_pool();
    records_.make(0, 0)->listed.set(0);
    Story story;
    for (const char event : events) {
      play(story, event);
      story.told += event;
    }
    return story;
  }
  void check(const Story& story) {
    ++stories_;
    EXPECT_EQ(story.given_back, story.emptied ? 1u : 0u) << story.told;
    EXPECT_TRUE(content(*pool_).empty()) << story.told;
    EXPECT_EQ(records_[0]->listed.get(), 0u) << story.told << ": as a span that was never listed";
  }

  Records records_;
  std::unique_ptr<PartialPool> pool_;
  u32 stories_ = 0;
};

FRESH_TEST(PartialPool, ExactlyOneGivesAnEmptySpanBackInEveryStory) {
  Stories stories;
  stories.tell({});
  // e r i, e i r and i e r with the adopter at each of four places, but one: i a e r ends with the adoption.
  EXPECT_EQ(stories.stories(), 12u);
}

FRESH_TEST(PartialPool, ThreadsFinishEveryStoryOnce) {
  constexpr u32 kSpans = 24, kRounds = 400;
  const Records records(2);
  PartialPool& pool = g_partial_pool;
  // The word of each span: it is listed, then either emptied or adopted.
  std::vector<Atomic<u32>> words(kSpans), ends(kSpans);
  const auto index_of = [&](Span* span) { return static_cast<usize>(span - records[0]); };
  const auto change = [&](usize i, u32 to) {
    u32 seen = 0;
    while (!words[i].compare_exchange(seen, to, acq_rel, relaxed)) {
      if (seen != 0) return false;
    }
    return true;
  };
  for (u32 round = 0; round < kRounds; ++round) {
    for (u32 i = 0; i < kSpans; ++i) {
      records.make(i, i % 2);
      words[i].store(0, relaxed);
      ends[i].store(0, relaxed);
    }
    test::run_together(3, [&](u32 self) {
      for (u32 i = 0; i < kSpans; ++i) {
        if (self == 1) {
          if (!pool.insert(records[i])) ends[i].fetch_add(1, relaxed);
        } else if (self == 2) {
          const u32 which = kSpans - 1 - i;
          if (change(which, 1) && pool.remove(records[which])) ends[which].fetch_add(1, relaxed);
        } else if (i % 4 == 0) {
          Span* got = pool.adopt(kClass, i % 2, [&](Span* span) { return change(index_of(span), 2); });
          if (got != nullptr) ends[index_of(got)].fetch_add(1, relaxed);
        }
      }
    });
    for (u32 i = 0; i < kSpans; ++i) ASSERT_EQ(ends[i].load(relaxed), 1u) << "span " << i << " in round " << round;
    ASSERT_TRUE(content(pool).empty());
  }
}

}  // namespace
}  // namespace coffer
