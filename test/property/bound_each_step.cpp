// SPDX-License-Identifier: MIT
// The bound, after every operation of many threads: what the spans of a class hold is compared with what they may.
//
//   bound_each_step [--seed N] [--threads N] [--rounds N] [--ops N (a thread and round)] [--lose-spans N]
//
// Each thread fills a class, frees nearly all of it in random order, here or after handing it to another thread, and
// goes on to the next class; from time to time it ends, and another takes over what it left. So spans are shared,
// adopted, mailed, taken and purged all the time, and what one class gave up has to be found again by the next.
//
// --lose-spans N is a fault that has to be found: every so many operations a span is taken off the partial pool for
// nobody, as an allocator would have it that forgets some of what it could adopt.
//
// Why this can be asked while all threads are at work, and raises no false alarm. docs/design/bound.md proves for the
// moments at which no thread is inside Coffer, with m the most makers there were at a time and S the bytes of a span:
//
//   held <= high / (1 - t) + m x S                                            (theorem 1)
//
// Take a moment at which `held` is read, here as the number of spans (all of a class have one size). Let L be the last
// look into the partial pool after which one of these spans was made. Those made since L are their makers' at L, at
// most m. At L no listed span could be found, so what was used then was at least (1 - t) of what was held, but for
// threads in the middle of something, each of them with one span at most:
//   - a span whose last block was just freed is not there to be adopted, and holds until its thread ends it;
//   - a span that is made, adopted or looked at is counted in `used` a moment before `high` is raised.
// Both are over, and counted, once the thread has gone on; so at any moment there is at most one of them a thread, and
// this program's own thread is in none. Hence with n other threads (the reclaimer is one)
//
//   held <= (high + n x S) / (1 - t) + (m + n) x S
//
// `high` and m only grow while the class has a span, and the main thread sees to it that it has one until all is over
// (pin): so it is enough to read them after `held`. A look is one moment with any number of shards
// (PartialPool::adopt). The terms in n and m are worth about twenty spans of the several hundred that a class has at
// its height.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "config/config.hpp"
#include "heap/refill.hpp"
#include "policy/kept.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"
#include "support/arguments.hpp"
#include "support/build.hpp"
#include "support/held_block.hpp"
#include "support/mailbox.hpp"

namespace coffer::test {
namespace {

constexpr std::size_t kSizes[] = {512, 1024, 1536, 2048};
constexpr std::size_t kSizeCount = sizeof kSizes / sizeof kSizes[0];
constexpr std::size_t kMostBlocks = 2'000;  // of a thread, at its height
constexpr std::uint64_t kLookAtAll = 16;    // operations from one look at all classes to the next

std::size_t span_size(ClassIndex size_class) {
  return kSliceBytes << span_shape(class_layout(size_class), g_span_choices.least_slices_log2.get()).slices_log2;
}

struct Plan {
  std::uint64_t operations;
  std::size_t threads;
  std::uint64_t lose_spans;
};

void check_class(ClassIndex size_class, const Plan& plan) {
  const std::size_t others = plan.threads;  // the other lanes', and the reclaimer
  const std::size_t bytes = span_size(size_class);
  const std::size_t held = class_spans(size_class) * bytes;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // `held` first, see above
  const std::size_t high = class_high(size_class);
  const std::size_t bound = bound_of_class(high + others * bytes) + (most_makers(size_class) + others) * bytes;
  if (held > bound && plan.lose_spans != 0) {
    std::printf("found: blocks of %zu bytes: spans hold %zu bytes, bound %zu\n", class_bytes(size_class), held, bound);
    std::fflush(stdout);
    std::_Exit(0);
  }
  REQUIRE(held <= bound,
          "blocks of %zu bytes: spans hold %zu bytes, more than the %zu that the highest use of %zu allows",
          class_bytes(size_class), held, bound, high);
}

class Lane {
 public:
  Lane(std::uint64_t seed, const Plan& plan, std::deque<Mailbox>& mailboxes)
      : random_(seed), plan_(plan), mailboxes_(mailboxes) {}

  // Threads one after another, each for a few swings.
  void run() {
    for (done_ = 0; done_ < plan_.operations;) {
      const std::uint64_t swings = random_.between(1, 3);
      std::thread([&] {
        for (std::uint64_t i = 0; i < swings; ++i) swing();
      }).join();
    }
  }

  void free_all() {
    while (!blocks_.empty()) free_one();
  }

 private:
  void swing() {
    const std::size_t size = kSizes[random_.below(kSizeCount)];
    const std::size_t most = random_.between(kMostBlocks / 2, kMostBlocks);
    while (blocks_.size() < most && done_ < plan_.operations) {
      blocks_.push_back(coffer_malloc(size));
      REQUIRE(blocks_.back() != nullptr, "an allocation of %zu bytes failed", size);
      note(class_of(size));
      if (random_.one_in(8)) hand_over();
    }
    const std::size_t left = most / random_.between(5, 50);
    while (blocks_.size() > left) {
      if (random_.one_in(4)) hand_over();
      free_one();
    }
  }

  void free_one() {
    if (blocks_.empty()) return;
    std::swap(blocks_[random_.below(blocks_.size())], blocks_.back());
    const ClassIndex size_class = class_of(coffer_malloc_usable_size(blocks_.back()));
    coffer_free(blocks_.back());
    blocks_.pop_back();
    note(size_class);
  }

  // Leaves a block for another thread and takes what lay there.
  void hand_over() {
    if (blocks_.empty()) return;
    HeldBlock mine;
    mine.at = static_cast<unsigned char*>(blocks_.back());
    blocks_.pop_back();
    const HeldBlock theirs = mailboxes_[random_.below(mailboxes_.size())].swap(mine);
    if (theirs) blocks_.push_back(theirs.at);
  }

  // After an operation.
  void note(ClassIndex size_class) {
    check_class(size_class, plan_);
    if (++done_ % kLookAtAll == 0) {
      for (const std::size_t size : kSizes) check_class(class_of(size), plan_);
    }
    if (plan_.lose_spans != 0 && done_ % plan_.lose_spans == 0) {
      g_partial_pool.adopt(size_class, 0, [](Span*) { return true; });
    }
  }

  Random random_;
  const Plan& plan_;
  std::deque<Mailbox>& mailboxes_;
  std::vector<void*> blocks_;
  std::uint64_t done_ = 0;
};

// At rest what was counted is what is there, and the theorem holds as it stands.
void check_at_rest() {
  check_allocator("at rest");
  const ReclaimerRests rests;
  for (const std::size_t size : kSizes) {
    const ClassIndex size_class = class_of(size);
    struct coffer_class_stats stats = {};
    REQUIRE(coffer_class_stats(size_class, &stats, sizeof stats) == 0, "coffer_class_stats failed");
    REQUIRE(stats.held == class_spans(size_class) * span_size(size_class), "blocks of %zu bytes: %zu held, %u counted",
            size, stats.held, class_spans(size_class));
    REQUIRE(stats.held <= stats.bound, "blocks of %zu bytes: %zu held, bound %zu", size, stats.held, stats.bound);
  }
}

// Blocks of a span of the class, which keep it one. malloc may take the first ones from mixed spans, and a span of
// which an eighth is live, or less, may become one.
void pin(ClassIndex size_class, std::vector<void*>& pins) {
  const std::size_t capacity = span_shape(class_layout(size_class), g_span_choices.least_slices_log2.get()).capacity;
  for (std::size_t i = 0; i <= 2 * capacity / kSmallPart; ++i) pins.push_back(allocate_in_span(size_class));
}

void run_round(std::uint64_t seed, const Plan& plan) {
  std::vector<void*> pins;
  for (const std::size_t size : kSizes) pin(class_of(size), pins);
  {
    std::deque<Mailbox> mailboxes(64 * plan.threads);
    std::deque<Lane> lanes;
    for (std::size_t i = 0; i < plan.threads; ++i) lanes.emplace_back(seed + i, plan, mailboxes);
    std::vector<std::thread> threads;
    for (Lane& lane : lanes) threads.emplace_back([&] { lane.run(); });
    for (std::thread& thread : threads) thread.join();
    if (plan.lose_spans == 0) check_at_rest();
    for (Lane& lane : lanes) lane.free_all();
    for (Mailbox& mailbox : mailboxes) coffer_free(mailbox.swap({}).at);
  }
  const ReclaimerRests rests;
  for (void* pin : pins) coffer_free(pin);
  coffer_malloc_trim(0);
  if (plan.lose_spans != 0) return;
  // The next round has to live with its own highest use.
  for (const std::size_t size : kSizes) {
    REQUIRE(class_spans(class_of(size)) == 0 && class_high(class_of(size)) == 0, "a class of %zu bytes is left", size);
  }
}

int bound_each_step(const Arguments& arguments) {
  const std::uint64_t seed = arguments.number("--seed", std::random_device{}());
  Plan plan{};
  plan.operations = arguments.number("--ops", kThreadSanitizer ? 10'000 : 400'000);
  plan.threads = arguments.number("--threads", 6);
  plan.lose_spans = arguments.number("--lose-spans", 0);
  // A fault is looked for until it is found; whether a short round meets it depends on how the threads run.
  const std::uint64_t rounds = arguments.number("--rounds", plan.lose_spans != 0 ? 400 : kThreadSanitizer ? 2 : 12);
  std::printf("seed %" PRIu64 ", %" PRIu64 " rounds of %zu threads with %" PRIu64 " operations each\n", seed, rounds,
              plan.threads, plan.operations);
  std::fflush(stdout);
  for (std::uint64_t round = 0; round < rounds; ++round) run_round(seed + round * plan.threads, plan);
  REQUIRE(plan.lose_spans == 0, "the lost spans were not found");
  return 0;
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::bound_each_step(coffer::test::Arguments(argc, argv)); }
