// SPDX-License-Identifier: MIT
// What the reclaimer does, done by calls where there is none.
#include <gtest/gtest.h>

#include <cstring>

#include "heaps.hpp"
#include "mixed/mixed.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kPage = 4096;
constexpr usize kMiB = usize{1} << 20;

// Blocks in mixed spans, of each five of which one stays, and a large block with a tail.
struct Waiting {
  Blocks live;
  std::vector<Span*> spans;
  void* block = nullptr;
  Waiting() {
    start_heaps();
    changeable_options().mixed = config::MixedPolicy::automatic;
    changeable_options().reclaimer = false;
    Blocks all;
    for (usize size = 1024; size <= 4096; size += 16) all.push_back(take(size));
    for (void* one : all) {
      EXPECT_TRUE(is_mixed(span_of(one)));
      std::memset(one, 9, 1024);
      if (spans.empty() || spans.back() != span_of(one)) spans.push_back(span_of(one));
    }
    set_free_limit(kPage);
    void* longer = take(4 * kMiB);
    give(longer);
    block = take(3 * kMiB);
    EXPECT_GT(resident_tails(), 0u);
    for (usize i = 0; i < all.size(); ++i) {
      if (i % 5 == 0) {
        live.push_back(all[i]);
      } else {
        give(all[i]);
      }
    }
  }
  usize resident() const {
    usize pages = 0;
    for (const Span* span : spans) {
      if (is_mixed(span)) pages += resident_pages(reinterpret_cast<void*>(span_start(span)), span_bytes(span));
    }
    return pages;
  }
  // Each of the survivors keeps two pages at most.
  bool is_over() const { return resident() <= 2 * live.size() && resident_tails() == 0; }
};

// `calls`: how many there are in a call.
template <class Call>
void expect_it_goes(u32 calls, Call&& call) {
  u64 now = 1000 * kTickNs;
  os::fake::set_clock(now);
  Waiting waiting;
  for (u32 tick = 0; tick < 4; ++tick) {
    for (u32 i = 0; i < 200; ++i) {
      const u64 purges = os::fake::calls_of(os::fake::kPurge);
      call();
      EXPECT_LE(os::fake::calls_of(os::fake::kPurge), purges + calls * 8) << "of one span, or one tail, a step";
    }
    EXPECT_TRUE(tick != 0 || !waiting.is_over()) << "not before a whole tick is over";
    EXPECT_EQ(check_everything(), 0u);
    os::fake::set_clock(now += kTickNs);
  }
  EXPECT_TRUE(waiting.is_over()) << waiting.resident() << " pages, a tail of " << resident_tails();
  EXPECT_FALSE(reclaimer_lives());
}

FRESH_TEST(Sweep, CallsGiveHolesAndTailsBackAsTheyUseLargeBlocks) {
  expect_it_goes(1, [] { give(take(kMiB / 2)); });
}

FRESH_TEST(Sweep, CallsGiveThemBackAsTheyUseChunks) {
  expect_it_goes(1, [] { give(take(5 * kMiB)); });
}

FRESH_TEST(Sweep, CallsGiveThemBackAsTheyUseSmallBlocks) {
  expect_it_goes(64, [] { give_many(take_many(64, 8 * kSize)); });
}

}  // namespace
}  // namespace coffer
