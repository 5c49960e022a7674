// SPDX-License-Identifier: MIT
// Eight owners fill memory and then sleep for ever; others free nine of ten of their blocks and need the room. An
// allocator whose blocks go back to the thread that allocated them keeps that room for threads that never ask again.
//
// local=1: the owners also freed some of their blocks themselves, as programs do; local=0: every free is remote.
// stopped=1: the owners are stopped by a signal at an arbitrary moment of their work, inside malloc or free too. Where
// such a thread holds a lock that others need, they wait for ever: the pattern then reports "stuck": 1.
#include <signal.h>

#include "pattern.hpp"

namespace {

constexpr size_t kMostThreads = 64;

struct State {
  size_t owners, helpers, bytes, one_in;
  bool local, stopped;
  pattern::Mix mix;
  pattern::Blocks owned[kMostThreads], helped[kMostThreads];
  size_t freed[kMostThreads];
  sem_t asleep, working, freeing_done, may_allocate, allocating_done;
};

State state;

// Replaces as many blocks as there are by others of the same size, at random: the owner frees locally, and what is live
// never grows.
void replace_some(pattern::Blocks& blocks, pattern::Random& random) {
  for (size_t i = 0; i < blocks.count(); ++i) {
    void*& block = blocks[random.below(blocks.count())];
    block = pattern::allocate(pattern::release(block));
  }
}

// Frees some random blocks and fills their places again, for ever. A signal may come anywhere: a block is out of the
// table before it is freed, and a new one in it as soon as malloc has returned.
[[noreturn]] void replace_for_ever(pattern::Blocks& blocks, pattern::Random& random) {
  constexpr size_t kMost = 64;
  auto* slots = reinterpret_cast<std::atomic<void*>*>(&blocks[0]);
  size_t empty[kMost], sizes[kMost];
  for (;;) {
    size_t count = random.between(1, kMost);
    for (size_t i = 0; i < count; ++i) {
      empty[i] = random.below(blocks.count());
      // relaxed, and release below: only the threads that free later read the table, which have seen the semaphore.
      void* block = slots[empty[i]].load(std::memory_order_relaxed);
      sizes[i] = 0;
      if (block == nullptr) continue;
      slots[empty[i]].store(nullptr, std::memory_order_release);
      sizes[i] = pattern::release(block);
    }
    for (size_t i = 0; i < count; ++i) {
      if (sizes[i] > 0) slots[empty[i]].store(pattern::allocate(sizes[i]), std::memory_order_release);
    }
  }
}

void own(void*, size_t index) {
  pattern::Random random(300 + index);
  pattern::Blocks& blocks = state.owned[index];
  size_t bytes = state.bytes / state.owners;
  blocks.fill(bytes, state.mix, random);
  if (state.local) replace_some(blocks, random);
  if (state.stopped) {
    sem_post(&state.working);
    replace_for_ever(blocks, random);
  }
  sem_post(&state.asleep);
  pattern::sleep_for_ever();
}

// The handler: from here on the thread does nothing any more, wherever it was.
void stop(int) {
  sem_post(&state.asleep);
  pattern::sleep_for_ever();
}

void help(void*, size_t index) {
  pattern::Random random(400 + index);
  pattern::get_used();
  // Its share of each owner's blocks, so that each owner's memory is freed by all.
  for (size_t owner = 0; owner < state.owners; ++owner) {
    pattern::Blocks& blocks = state.owned[owner];
    size_t from = blocks.count() * index / state.helpers, to = blocks.count() * (index + 1) / state.helpers;
    for (size_t i = from; i < to; ++i) {
      if (blocks[i] == nullptr || random.below(state.one_in) == 0) continue;
      state.freed[index] += pattern::release(blocks[i]);
      blocks[i] = nullptr;
    }
  }
  sem_post(&state.freeing_done);
  pattern::wait(state.may_allocate);
  state.helped[index].fill(state.freed[index], state.mix, random);
  sem_post(&state.allocating_done);
  pattern::sleep_for_ever();
}

size_t count_owned() {
  size_t sum = 0;
  for (size_t owner = 0; owner < state.owners; ++owner) {
    for (size_t i = 0; i < state.owned[owner].count(); ++i) {
      void* block = state.owned[owner][i];
      if (block != nullptr) sum += *static_cast<size_t*>(block);
    }
  }
  return sum;
}

// False: the helpers are stuck.
bool wait_for_helpers(sem_t& semaphore) {
  timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 10;
  for (size_t i = 0; i < state.helpers; ++i) {
    while (sem_timedwait(&semaphore, &end) != 0) {
      if (errno != EINTR) return false;
    }
  }
  return true;
}

void stop_owners(pattern::Threads& threads, size_t seed) {
  struct sigaction action{};
  action.sa_handler = stop;
  sigaction(SIGUSR1, &action, nullptr);
  for (size_t i = 0; i < state.owners; ++i) pattern::wait(state.working);
  pattern::Random random(seed);
  for (size_t i = 0; i < state.owners; ++i) {
    pattern::sleep_until(bench::clock_ns(CLOCK_MONOTONIC) + random.between(1'000'000, 10'000'000));
    pthread_kill(threads.thread(i), SIGUSR1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("idle_owners");
  bench::Arguments arguments(argc, argv);
  state.owners = arguments.number("owners", 8);
  state.helpers = arguments.number("helpers", 1);
  state.bytes = arguments.number("bytes", 64 * pattern::kMiB);
  state.one_in = arguments.number("one_in", 10);
  state.local = arguments.number("local", 1) != 0;
  state.stopped = arguments.number("stopped", 0) != 0;
  size_t seed = arguments.number("seed", 9);
  state.mix = {arguments.number("low", 16), arguments.number("high", 128), arguments.number("octaves", 0) != 0};
  arguments.done();
  pattern::require(state.owners <= kMostThreads && state.helpers <= kMostThreads, "too many threads");

  for (sem_t* semaphore :
       {&state.asleep, &state.working, &state.freeing_done, &state.may_allocate, &state.allocating_done}) {
    sem_init(semaphore, 0, 0);
  }
  size_t blocks = state.bytes / state.mix.average() * 3 / 2 + 1000;
  for (size_t i = 0; i < state.owners; ++i) state.owned[i].make(blocks / state.owners + 1000);
  for (size_t i = 0; i < state.helpers; ++i) state.helped[i].make(blocks / state.helpers + 1000);
  pattern::Threads owners, helpers;
  owners.make(state.owners);
  helpers.make(state.helpers);
  figures.own_memory_done();

  for (size_t i = 0; i < state.owners; ++i) owners.start(own, nullptr);
  if (state.stopped) stop_owners(owners, seed);
  for (size_t i = 0; i < state.owners; ++i) pattern::wait(state.asleep);
  size_t live = count_owned();
  figures.sample(live);
  double first = static_cast<double>(figures.peak_kib());

  for (size_t i = 0; i < state.helpers; ++i) helpers.start(help, nullptr);
  bool stuck = !wait_for_helpers(state.freeing_done);
  if (!stuck) {
    figures.add("freed_kib", static_cast<double>(figures.now()));
    for (size_t i = 0; i < state.helpers; ++i) sem_post(&state.may_allocate);
    stuck = !wait_for_helpers(state.allocating_done);
  }
  size_t again = 0;
  for (size_t i = 0; i < state.helpers; ++i) again += state.helped[i].bytes();
  if (!stuck) figures.sample(count_owned() + again);
  figures.add("stuck", stuck);
  figures.add("first_kib", first);
  figures.add("growth", static_cast<double>(figures.now() - figures.start_kib()) /
                            (first - static_cast<double>(figures.start_kib())));
  figures.report(figures.now());
  _exit(0);
}
