// SPDX-License-Identifier: MIT
// A server: each lane has a set of blocks, of which its thread frees random ones and allocates others in their places;
// after a while the thread hands the set to a new thread and ends, so that blocks are freed by threads that did not
// allocate them.
//
// Hoard: 10^4 blocks of 10 to 100 bytes a thread, 30 s; its table 4 counts 27,881,924 objects on 14 threads. scalloc:
// 10^3 blocks of 7 bytes a thread, 10^4 replacements for each of them before the thread ends, 10 s. A run by the clock
// does more work under a faster allocator and then needs more memory for it; so the number of operations is given here,
// and seconds= runs by the clock as the papers do. An operation is a free and a malloc; the papers' metric is their
// number a second.
#include <semaphore.h>

#include "suite.hpp"

namespace {

struct Block {
  unsigned char* memory;
  size_t size;
};

struct Lane {
  Block* blocks;
  suite::Random random;
  size_t index, generations;
  uint64_t deadline;  // by the clock
  uint64_t bytes;     // freed: depends on every size that was drawn
};

struct Server {
  suite::Run* run;
  size_t low, high, slots, replacements, generations;
  uint64_t duration;  // 0: as many generations as are given
  sem_t finished;
};

Server server;

void fill(Block& block, suite::Random& random) {
  size_t size = random.between(server.low, server.high);
  block = {static_cast<unsigned char*>(suite::allocate(size)), size};
  block.memory[0] = block.memory[size - 1] = static_cast<unsigned char>(size);
}

size_t empty(Block& block) {
  unsigned char tag = static_cast<unsigned char>(block.size);
  suite::require(block.memory[0] == tag && block.memory[block.size - 1] == tag, "a block was damaged");
  suite::release(block.memory);
  return block.size;
}

void end_lane(Lane& lane) {
  server.run->stop();
  server.run->sample();
  for (size_t i = 0; i < server.slots; ++i) {
    size_t size = empty(lane.blocks[i]);
    lane.bytes += size;
  }
  sem_post(&server.finished);
}

void* run_generation(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  // The first generation fills the set and is not timed.
  if (lane.generations == 0) {
    bench::pin(lane.index);
    for (size_t i = 0; i < server.slots; ++i) fill(lane.blocks[i], lane.random);
    server.run->start(lane.index);
    lane.deadline = bench::clock_ns(CLOCK_MONOTONIC) + server.duration;
  }
  server.run->record(lane.index);
  for (size_t i = 0; i < server.replacements; ++i) {
    Block& block = lane.blocks[lane.random.below(server.slots)];
    lane.bytes += empty(block);
    fill(block, lane.random);
  }
  ++lane.generations;
  bool done =
      server.duration == 0 ? lane.generations == server.generations : bench::clock_ns(CLOCK_MONOTONIC) >= lane.deadline;
  if (done) {
    end_lane(lane);
    return nullptr;
  }
  pthread_t successor;
  suite::require(pthread_create(&successor, nullptr, run_generation, &lane) == 0, "cannot start a thread");
  pthread_detach(successor);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "larson", "Hoard 5.2, figure 3c and table 4; scalloc 7.2.3, figure 8",
                 "a server whose threads replace random blocks, hand their sets to new threads and end");
  size_t threads = run.threads(1);
  server.low = run.number("low", 10, "bytes of the smallest block; scalloc: 7");
  server.high = run.number("high", 100, "bytes of the largest block; scalloc: 7", 1, 1 << 20);
  server.slots = run.number("slots", 10'000, "blocks of a thread; scalloc: 1000");
  size_t rounds = run.number("rounds", 1, "replacements for each block before a thread ends; scalloc: 10000");
  size_t operations = run.scaled("operations", 27'881'924, "replacements of all threads together");
  size_t seconds = run.number("seconds", 0, "run by the clock instead; Hoard: 30, scalloc: 10", 0, 3600);
  if (server.low > server.high) run.reject("low is above high");
  // A run of less than one life of each thread is a shorter life.
  server.replacements = rounds * server.slots;
  if (server.replacements * threads * 2 > operations) server.replacements = operations / threads / 2 + 1;
  server.generations = operations / threads / server.replacements;
  server.duration = seconds * 1'000'000'000u;
  server.run = &run;
  run.begin(threads);

  sem_init(&server.finished, 0, 0);
  Lane* lanes = suite::table<Lane>(threads);
  for (size_t i = 0; i < threads; ++i) {
    lanes[i] = {suite::table<Block>(server.slots), suite::Random(run.seed() * 1000 + i), i, 0, 0, 0};
    pthread_t thread;
    suite::require(pthread_create(&thread, nullptr, run_generation, &lanes[i]) == 0, "cannot start a thread");
    pthread_detach(thread);
  }
  for (size_t i = 0; i < threads; ++i) {
    while (sem_wait(&server.finished) != 0) {
    }
  }
  size_t done = 0;
  uint64_t checksum = 0;
  for (size_t i = 0; i < threads; ++i) {
    done += lanes[i].generations * server.replacements;
    // By the clock the work differs from run to run, and nothing of it can be compared.
    if (seconds == 0) checksum += suite::mix(lanes[i].bytes);
  }
  run.add("threads_ended", static_cast<double>(done) / static_cast<double>(server.replacements));
  run.live(threads * server.slots * (server.low + server.high) / 2);
  run.report(done, checksum);
}
