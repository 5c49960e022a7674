// SPDX-License-Identifier: MIT
#include "inspect/watching.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>

#include "forks.hpp"
#include "heaps.hpp"
#include "pool/reclaimer.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

void start_watched(bool share = true, u32 signal = 0) {
  changeable_options().share = share;
  changeable_options().share_signal = signal;
  start_heaps();
  watching_prepare();
}

// The page as another process sees it.
class View {
 public:
  View() : View(shared_path()) {}
  explicit View(const char* path) {
    if (path == nullptr) return;
    std::ifstream file(path, std::ios::binary);
    file.read(bytes_, sizeof bytes_);
    good_ = file.gcount() == sizeof bytes_;
  }
  bool is_good() const { return good_; }
  u64 turn() const { return page().header.turn.load(relaxed); }
  u64 process() const { return page().header.process; }
  u64 now(page::now::Figure figure) const { return page().header.now[figure].load(relaxed); }
  u64 figure(page::Figure figure) const { return newest().figures[figure].load(relaxed); }
  const page::Copy& newest() const { return page().copies[turn() % 2]; }

 private:
  const page::Page& page() const { return *reinterpret_cast<const page::Page*>(bytes_); }
  alignas(64) char bytes_[page::kFileBytes] = {};
  bool good_ = false;
};

void finish() {
  watching_end();
  EXPECT_EQ(shared_path(), nullptr);
}

FRESH_TEST(Watching, NothingIsThereUntilItIsAskedFor) {
  start_watched(false);
  give_many(take_many(3000));
  EXPECT_EQ(shared_path(), nullptr);
  EXPECT_EQ(g_pending.load(relaxed), 0u);
  EXPECT_FALSE(watches_lists());
  struct sigaction action = {};
  for (int signal = 1; signal < 65; ++signal) {
    if (kThreadSanitizer || sigaction(signal, nullptr, &action) != 0 || signal == SIGALRM) continue;  // it has its own
    EXPECT_TRUE(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) << signal;
  }
}

FRESH_TEST(Watching, ThePageShowsWhatStatisticsSay) {
  start_watched();
  const Blocks blocks = take_many(1000);
  void* large = take(usize{1} << 20);
  share_now();
  const View view;
  ASSERT_TRUE(view.is_good());
  EXPECT_EQ(view.process(), static_cast<u64>(getpid()));
  Statistics statistics;
  collect_statistics(statistics);
  EXPECT_EQ(view.figure(page::live), statistics.live);
  EXPECT_EQ(view.figure(page::held), statistics.held);
  EXPECT_EQ(view.figure(page::bound), statistics.bound);
  EXPECT_EQ(view.figure(page::resident), statistics.resident);
  EXPECT_EQ(view.now(page::now::held), statistics.held);
  EXPECT_EQ(view.newest().classes[kClass].live.load(relaxed), statistics.by_class[kClass].live);
  EXPECT_EQ(view.newest().classes_used.load(relaxed), kClasses);
  ASSERT_EQ(view.newest().heaps_used.load(relaxed), 1u);
  EXPECT_EQ(view.newest().heaps[0].held.load(relaxed), held_by(t_heap));
  ASSERT_EQ(view.newest().spans_used.load(relaxed), statistics.spans);
  u64 spans_held = 0;
  u64 owned = 0;
  for (u64 i = 0; i < statistics.spans; ++i) {
    const page::Span& span = view.newest().spans[i];
    spans_held += span.held.load(relaxed);
    if (span.owner.load(relaxed) == t_heap->index.get()) owned += span.held.load(relaxed);
    EXPECT_LE(span.live.load(relaxed), span.held.load(relaxed));
  }
  EXPECT_EQ(spans_held, statistics.held - statistics.large);
  EXPECT_EQ(owned, held_by(t_heap));
  EXPECT_EQ(check_everything(), 0u);
  give_many(blocks);
  give(large);
  finish();
}

// Lists that are taken and given back would count twice if what comes back were not taken off.
FRESH_TEST(Watching, AllocationsAreCountedButForWhatIsOnLists) {
  start_watched();
  const Blocks first = take_many(kBlocksPerPage);  // which makes the start; none of a list is left
  share_now();
  const u64 before = View().figure(page::allocated_blocks);
  u64 allocated = 0;
  for (u32 round = 0; round < 200; ++round) {
    const Blocks blocks = take_many(round % 7 * 20 + 1);
    allocated += blocks.size();
    give_many(blocks);
  }
  void* large = take(usize{3} << 20);
  share_now();
  const View view;
  const u64 counted = view.figure(page::allocated_blocks) - before;
  EXPECT_GE(counted, allocated + 1);
  EXPECT_LE(counted, allocated + 1 + kCapacity) << "no more than one list waits";
  EXPECT_EQ(view.figure(page::large_allocated_blocks), 1u);
  EXPECT_EQ(view.figure(page::large_allocated_bytes), usize{3} << 20);
  EXPECT_GE(view.newest().classes[kClass].allocated_blocks.load(relaxed), allocated);
  give_many(first);
  give(large);
  finish();
}

FRESH_TEST(Watching, EveryKindOfListIsCounted) {
  start_watched();
  changeable_options().mixed = config::MixedPolicy::always;  // blocks from holes
  u64 allocated = 0;
  Blocks kept;
  for (const usize size : {16, 48, 100, 500, 1000, 3000, 9000, 30'000}) {
    Blocks blocks = take_many(300, size);
    allocated += blocks.size();
    for (usize i = 0; i < blocks.size(); i += 2) give(blocks[i]);
    for (usize i = 1; i < blocks.size(); i += 2) kept.push_back(blocks[i]);
    Worker worker;
    worker.run([&] { give_now(kept); });  // lists of remote frees
    kept.clear();
    kept = take_many(200, size);
    allocated += kept.size();
  }
  share_now();
  const u64 counted = View().figure(page::allocated_blocks);
  EXPECT_GE(counted, allocated);
  EXPECT_LE(counted, allocated + 8 * 600);
  EXPECT_EQ(check_everything(), 0u);
  give_many(kept);
  finish();
}

FRESH_TEST(Watching, WhatIsHeldIsShownAsSoonAsAThreadComesBy) {
  fake::set_clock(1'000'000'000);
  start_watched();
  Blocks blocks = take_many(100);
  const u64 turn = View().turn();
  EXPECT_EQ(turn, 1u) << "the process showed a copy at its start";
  // The clock stands still: no further copy.
  void* large = take(usize{10} << 20);
  give(take(usize{1} << 20));
  View view;
  EXPECT_EQ(view.turn(), turn);
  EXPECT_GE(view.now(page::now::held), usize{10} << 20);
  // And when time has passed, the next slow path brings one.
  fake::set_clock(1'200'000'000);
  give(take(usize{1} << 20));
  EXPECT_EQ(View().turn(), turn + 1);
  give(large);
  give_many(blocks);
  finish();
}

FRESH_TEST(Watching, ASignalOffersThePage) {
  start_watched(false, SIGRTMIN + 5);
  Blocks blocks = take_many(1000);
  EXPECT_EQ(shared_path(), nullptr);
  raise(SIGRTMIN + 5);
  ASSERT_NE(shared_path(), nullptr);
  View view;
  EXPECT_GE(view.figure(page::live), 1000 * kSize);
  give_now(blocks);
  raise(SIGRTMIN + 5);
  EXPECT_LT(View().figure(page::live), 1000 * kSize);
  finish();
}

// What a reader does: writes the time into the page.
void ask_for_figures() {
  const u64 time = os::monotonic_ns();
  const int file = open(shared_path(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const off_t place = offsetof(page::Header, now) + page::now::asked_ns * sizeof(u64);
  EXPECT_EQ(pwrite(file, &time, sizeof time, place), static_cast<ssize_t>(sizeof time));
  close(file);
}

// Issue 16: the page of a program that slept showed what was so before its last tenth of a second.
FRESH_TEST(Watching, AReaderIsAnsweredThoughNoThreadComesBy) {
  fake::set_clock(1'000'000'000);
  start_watched();
  Blocks blocks = take_many(5000);
  const u64 turn = View().turn();
  EXPECT_TRUE(answer_readers());
  EXPECT_EQ(View().turn(), turn) << "nobody asked";
  fake::set_clock(1'000'000'001);
  ask_for_figures();
  EXPECT_TRUE(answer_readers());
  EXPECT_EQ(View().turn(), turn + 1);
  EXPECT_GE(View().figure(page::live), 5000 * kSize);
  EXPECT_GE(View().figure(page::bound), View().figure(page::held));
  EXPECT_TRUE(answer_readers());
  EXPECT_EQ(View().turn(), turn + 1) << "answered once";
  give_many(blocks);
  finish();
  EXPECT_FALSE(answer_readers()) << "nothing is shown any more";
}

// Issue 16: a child that has not allocated showed no page.
FRESH_TEST(Watching, AForkChildIsShownBeforeItAllocates) {
  start_watched();
  const Blocks blocks = take_many(500);
  const int status = status_of([] {
    EXPECT_EQ(shared_path(), nullptr);
    EXPECT_TRUE(answer_readers());
    ASSERT_NE(shared_path(), nullptr);
    const View view;
    EXPECT_EQ(view.process(), static_cast<u64>(getpid()));
    EXPECT_GE(view.figure(page::live), 500 * kSize);
    watching_end();
  });
  EXPECT_EQ(status, 0);
  give_many(blocks);
  finish();
}

FRESH_TEST(Watching, WhoIsAskedBySignalNeedsNoThread) {
  start_watched(false, SIGRTMIN + 5);
  give(take());
  raise(SIGRTMIN + 5);
  EXPECT_FALSE(answer_readers());
  EXPECT_FALSE(reclaimer_lives());
  finish();
}

FRESH_TEST(Watching, ASignalThatCannotBeCaughtIsNamed) {
  const Outcome outcome = outcome_of([] { start_watched(false, SIGKILL); });
  EXPECT_TRUE(outcome.succeeded()) << outcome.errors;
  EXPECT_NE(outcome.errors.find("share_signal:9: this signal cannot be caught"), std::string::npos) << outcome.errors;
}

// The handler waits for nothing, wherever it interrupts an allocation, and the page is whole after each signal.
FRESH_TEST(Watching, SignalsMayComeAnywhere) {
  start_watched(true, SIGRTMIN + 5);
  give(take());
  const pthread_t self = pthread_self();
  Atomic<u32> done;
  std::thread sender([&] {
    // Until the page was written often, too: ThreadSanitizer makes one of signals that come close together.
    for (u32 i = 0; i < 300 || View().turn() <= 10; ++i) {
      pthread_kill(self, SIGRTMIN + 5);
      i < 300 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    done.store(1, seq_cst);
  });
  Blocks blocks;
  u64 rounds = 0;
  while (done.load(seq_cst) == 0) {
    blocks.push_back(take(16 << (++rounds % 13)));
    if (blocks.size() > 500) {
      give_many(blocks);
      blocks.clear();
    }
  }
  sender.join();
  const View view;
  EXPECT_GT(view.turn(), 10u);
  EXPECT_EQ(view.newest().begin.load(relaxed), view.newest().end.load(relaxed));
  give_many(blocks);
  EXPECT_EQ(check_everything(), 0u);
  finish();
}

FRESH_TEST(Watching, AForkChildShowsItsOwnPage) {
  start_watched();
  const Blocks blocks = take_many(500);
  share_now();
  const std::string parents = shared_path();
  const u64 turn = View().turn();
  run_fresh([&] {
    EXPECT_EQ(shared_path(), nullptr);
    const Blocks more = take_many(2000);
    share_now();
    ASSERT_NE(shared_path(), nullptr);
    EXPECT_NE(shared_path(), parents);
    const View view;
    EXPECT_EQ(view.process(), static_cast<u64>(getpid()));
    EXPECT_GE(view.figure(page::live), 2500 * kSize);
    watching_end();
  });
  const View view;
  EXPECT_EQ(shared_path(), parents);
  EXPECT_EQ(view.turn(), turn) << "the child wrote nothing here";
  give_many(blocks);
  finish();
}

FRESH_TEST(Watching, ManyThreadsAndForksAtOnce) {
  start_watched();
  constexpr u32 kThreads = 4;
  Atomic<u32> forked;
  run_together(kThreads + 1, [&](u32 index) {
    if (index == kThreads) {
      for (u32 i = 0; i < 20; ++i) {
        const int status = status_of([] {
          take_and_give(300);
          share_now();
          EXPECT_EQ(View().process(), static_cast<u64>(getpid()));
          watching_end();
        });
        EXPECT_EQ(status, 0);
      }
      forked.store(1, seq_cst);
      return;
    }
    for (u32 round = 0; round < 40 || forked.load(seq_cst) == 0; ++round) {
      take_and_give(50 + index * 30, 16u << (round % 10));
      if (round % 16 == 0) share_now();
    }
  });
  share_now();
  EXPECT_EQ(View().newest().begin.load(relaxed), View().newest().end.load(relaxed));
  EXPECT_EQ(check_everything(), 0u);
  finish();
}

FRESH_TEST(Watching, WithoutAPlaceForThePageTheProgramGoesOn) {
  const Outcome outcome = outcome_of([] {
    fake::set_faults({.nth = 1, .duration = fake::Duration::from_then_on, .kinds = fake::kFile});
    start_watched();
    const Blocks blocks = take_many(3000);
    EXPECT_EQ(shared_path(), nullptr);
    give_many(blocks);
    EXPECT_EQ(fake::failed_calls(), 3u) << "three places, and not again";
    EXPECT_EQ(check_everything(), 0u);
  });
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_NE(outcome.errors.find("share: no page could be made"), std::string::npos);
  EXPECT_EQ(outcome.errors.find("share:", outcome.errors.find("share:") + 1), std::string::npos) << "said once";
}

FRESH_TEST(Watching, WithoutMemoryForItsCountsNothingElseFails) {
  start_watched();
  give(take(usize{1} << 20));
  fake::set_faults({.nth = 1, .kinds = fake::kReserve});
  const Blocks blocks = take_many(100);
  EXPECT_EQ(fake::failed_calls(), 1u);
  fake::stop_faults();
  give_many(blocks);
  EXPECT_EQ(check_everything(), 0u);
  finish();
}

}  // namespace
}  // namespace coffer
