// SPDX-License-Identifier: MIT
// Many threads while calls to the operating system fail at random, or while address space is short: what one thread
// undoes after a failure meets what the others do. Other threads run around every call.
//
//   random_faults [--seed N] [--rounds N] [--ops N (a thread and round)] [--no-fork (one round, for a debugger)]
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "os/fake/fake.hpp"
#include "support/arguments.hpp"
#include "support/build.hpp"
#include "support/held_block.hpp"
#include "support/mailbox.hpp"

namespace coffer::test {
namespace {

namespace fake = os::fake;

constexpr unsigned kSecondsOfRound = 120;
constexpr std::size_t kThreads = 4, kSlots = 200;
constexpr std::size_t kMostBytes = 48 * kMiB;  // of a thread

class Worker {
 public:
  Worker(std::uint64_t seed, std::deque<Mailbox>& mailboxes) : random_(seed), mailboxes_(mailboxes), blocks_(kSlots) {}

  void run(std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (random_.one_in(2000)) coffer_malloc_trim(0);
      step(blocks_[random_.below(kSlots)]);
    }
  }

  void free_all() {
    for (HeldBlock& block : blocks_) {
      if (block) release(block);
    }
    bytes_ = 0;
  }

  std::uint64_t refused() const { return refused_; }

 private:
  std::size_t pick_size() {
    const std::uint64_t dice = random_.below(100);
    if (dice < 4) return chunk_size(random_, 8 * kMiB);
    if (dice < 20) return slice_run_size(random_);
    return random_.by_magnitude(1, 32 * kKiB);
  }

  void note_refusal(std::size_t size) {
    REQUIRE(errno == ENOMEM, "an allocation of %zu bytes failed with errno %d", size, errno);
    ++refused_;
  }

  void step(HeldBlock& block) {
    if (!block) {
      if (bytes_ > kMostBytes) return;
      const std::size_t size = pick_size();
      errno = 0;
      if (void* const at = random_.one_in(3) ? zeroed(size) : coffer_malloc(size)) {
        block = hold(at, size, random_.next());
        bytes_ += size;
      } else {
        note_refusal(size);
      }
      return;
    }
    const std::uint64_t dice = random_.below(4);
    if (dice == 0) {
      change(block);
    } else if (dice == 1) {
      bytes_ -= block.size;
      block = mailboxes_[random_.below(mailboxes_.size())].swap(block);
      bytes_ += block.size;
    } else {
      bytes_ -= block.size;
      release(block);
    }
  }

  static void* zeroed(std::size_t size) {
    void* const at = coffer_calloc(1, size);
    if (at != nullptr) {
      const std::size_t found = find_nonzero(at, size);
      REQUIRE(found == kPatternGood, "calloc: block %p of %zu bytes is not zero at offset %zu", at, size, found);
    }
    return at;
  }

  void change(HeldBlock& block) {
    verify(block, "before realloc");
    const std::size_t size = random_.one_in(2) ? pick_size() : 1 + random_.below(2 * block.size + 1);
    errno = 0;
    void* const at = coffer_realloc(block.at, size);
    if (at == nullptr) {
      REQUIRE(size > block.size, "realloc from %zu down to %zu bytes failed", block.size, size);
      note_refusal(size);
      verify(block, "after a failed realloc");
      return;
    }
    const std::size_t kept = size < block.size ? size : block.size;
    const std::size_t damage = find_damage(at, block.size, kept, block.seed);
    REQUIRE(damage == kPatternGood, "block %p is damaged at offset %zu by realloc from %zu to %zu bytes", at, damage,
            block.size, size);
    bytes_ += size - block.size;
    block = hold(at, size, block.seed);
  }

  Random random_;
  std::deque<Mailbox>& mailboxes_;
  std::vector<HeldBlock> blocks_;
  std::size_t bytes_ = 0;
  std::uint64_t refused_ = 0;
};

void run_round(std::uint64_t seed, std::uint64_t operations) {
  Random random(seed);
  fake::Faults faults;
  faults.one_in = static_cast<u32>(random.by_magnitude(2, 200));
  faults.kinds = random.one_in(2) ? fake::kAllKinds : static_cast<u32>(random.between(1, fake::kAllKinds));
  faults.damage = random.one_in(2) ? fake::Damage::torn : fake::Damage::none;
  // In every second round nothing fails but for want of address space: then threads take from each other what is left.
  const bool narrow = seed % 2 == 0;
  if (narrow) {
    faults = {};
    fake::set_address_space(random.between(8, 64) * kMiB);
  }
  fake::set_processors(1u << random.below(7));
  fake::set_current_processor(fake::kRoaming);
  fake::set_faults(faults);
  fake::set_jitter(true);
  std::deque<Mailbox> mailboxes(2 * kThreads);
  std::deque<Worker> workers;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) workers.emplace_back(random.next(), mailboxes);
  for (Worker& worker : workers) threads.emplace_back([&] { worker.run(operations); });
  for (std::thread& thread : threads) thread.join();
  check_allocator("after the threads");
  std::uint64_t refused = 0;
  for (Worker& worker : workers) {
    worker.free_all();
    refused += worker.refused();
  }
  for (Mailbox& mailbox : mailboxes) {
    HeldBlock block = mailbox.swap({});
    if (block) release(block);
  }
  check_allocator("after everything was freed");
  fake::stop_faults();
  coffer_malloc_trim(0);
  check_allocator("after the last trim");
  if (narrow) {
    std::printf("seed %" PRIu64 ": %zu MiB of address space; ", seed, fake::reserved_bytes() / kMiB);
  } else {
    std::printf("seed %" PRIu64 ": one in %u of %s calls failed, %" PRIu64 "; ", seed, faults.one_in,
                fake::kind_name(faults.kinds), fake::failed_calls());
  }
  std::printf("%" PRIu64 " allocations refused\n", refused);
  std::fflush(stdout);
}

// Each round has a process of its own: memory once had from the system is kept, and would be refused no more.
int random_faults(const Arguments& arguments) {
  const std::uint64_t seed = arguments.number("--seed", std::random_device{}());
  const std::uint64_t rounds = arguments.number("--rounds", kThreadSanitizer ? 10 : 30);
  const std::uint64_t operations = arguments.number("--ops", kThreadSanitizer ? 1'000 : 4'000);
  if (arguments.given("--no-fork")) {
    run_round(seed, operations);
    return 0;
  }
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0, "fork failed");
    if (child == 0) {
      alarm(kSecondsOfRound);
      run_round(seed + round, operations);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
    REQUIRE(status == 0, "--seed %" PRIu64 " ended with status %#x", seed + round, static_cast<unsigned>(status));
  }
  return 0;
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::random_faults(coffer::test::Arguments(argc, argv)); }
