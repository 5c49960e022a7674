// SPDX-License-Identifier: MIT
// Large blocks that come, go, grow and shrink by chance, against a model.
#include <gtest/gtest.h>

#include "fresh.hpp"
#include "large/blocks.hpp"
#include "pool/slice_pool.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;

class Model {
 public:
  explicit Model(u64 seed) : random_(seed) {}

  void step() {
    const u64 what = random_.below(10);
    if (what < 3 || blocks_.empty()) return add();
    if (what < 7) return change();
    if (what == 7) return static_cast<void>(purge_free(random_.below(64) * kSliceBytes));
    remove(random_.below(blocks_.size()));
  }
  void check() {
    usize bytes = 0;
    for (const Held& held : blocks_) {
      verify(held);
      bytes += coffer::large_bytes(record(held.at));
    }
    ASSERT_EQ(large_bytes(), bytes);
    ASSERT_EQ(held(), bytes);
    ASSERT_EQ(large_blocks(), blocks_.size());
  }
  void remove_all() {
    while (!blocks_.empty()) remove(0);
  }

 private:
  struct Held {
    char* at;
    usize size;
    u64 seed;
  };
  // A word of each page, and the last one.
  template <class Visit>
  static void visit_words(char* at, usize size, Visit&& visit) {
    for (usize i = 0; i + sizeof(u64) <= size; i += kCarvePage) visit(reinterpret_cast<u64*>(at + i), i);
    const usize last = round_down(size - sizeof(u64), sizeof(u64));
    visit(reinterpret_cast<u64*>(at + last), last);
  }
  static void fill(const Held& held) {
    visit_words(held.at, held.size, [&](u64* word, usize i) { *word = held.seed + i; });
  }
  static void verify(const Held& held) {
    visit_words(held.at, held.size, [&](const u64* word, usize i) { ASSERT_EQ(*word, held.seed + i) << i; });
  }
  usize random_size() { return random_.by_magnitude(kLargestSmall + 1, 12 * kMiB); }

  void add() {
    const usize size = random_size();
    bool zero = false;
    const Held held = {static_cast<char*>(allocate_large(size, kQuantum << random_.below(19), &zero)), size,
                       random_.next()};
    ASSERT_NE(held.at, nullptr);
    if (zero) {
      visit_words(held.at, size, [&](const u64* word, usize i) { ASSERT_EQ(*word, 0u) << i << " of " << size; });
    }
    fill(held);
    blocks_.push_back(held);
  }
  void change() {
    Held& held = blocks_[random_.below(blocks_.size())];
    const usize size = random_size();
    char* moved = static_cast<char*>(resize(held.at, size));
    if (moved == nullptr) return verify(held);
    held.at = moved;
    const usize common = size < held.size ? size : held.size;
    for (usize i = 0; i + sizeof(u64) <= common; i += kCarvePage) {
      ASSERT_EQ(*reinterpret_cast<u64*>(moved + i), held.seed + i) << "from " << held.size << " to " << size;
    }
    held.size = size;
    fill(held);
  }
  void remove(usize which) {
    verify(blocks_[which]);
    ASSERT_TRUE(free_block(blocks_[which].at));
    blocks_[which] = blocks_.back();
    blocks_.pop_back();
  }

  test::Random random_;
  std::vector<Held> blocks_;
};

void follow_the_model(bool coloured) {
  start_ground(usize{1} << 30);
  set_large_colours(coloured);
  changeable_options().free_limit = 16 * kMiB;
  Model model(21);
  for (int i = 0; i < 1500; ++i) {
    model.step();
    if (i % 50 == 0) model.check();
    ASSERT_FALSE(testing::Test::HasFailure()) << "at step " << i;
  }
  model.remove_all();
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(large_bytes(), 0u);
}

FRESH_TEST(Large, FollowsTheModel) { follow_the_model(false); }
FRESH_TEST(Large, FollowsTheModelWithColours) { follow_the_model(true); }

}  // namespace
}  // namespace coffer
