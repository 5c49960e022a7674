// SPDX-License-Identifier: MIT
// A server as in Larson and Krishnan's benchmark: each lane has a set of blocks of random sizes of which it replaces
// random ones; after a while its thread starts a successor, hands over the set and ends, so that blocks are freed by
// threads that did not allocate them. An operation is a free and a malloc.
#include <semaphore.h>

#include "bench.hpp"

namespace {

struct Lane {
  void** blocks;
  bench::Random random;
  size_t generations, index;
};

struct Server {
  const bench::Sizes* sizes;
  bench::Measurement* measurement;
  size_t slots, generations, replacements;
  sem_t finished;
};

Server server;
Lane* lanes;

void replace(Lane& lane, size_t slot) {
  free(lane.blocks[slot]);
  lane.blocks[slot] = bench::allocate((*server.sizes)[lane.random.next()]);
}

void* run_generation(void* argument) {
  Lane& lane = *static_cast<Lane*>(argument);
  // The first generation fills the set and is not timed.
  if (lane.generations == server.generations) {
    bench::pin(lane.index);
    for (size_t i = 0; i < server.slots; ++i) replace(lane, i);
    server.measurement->start();
  }
  for (size_t i = 0; i < server.replacements; ++i) replace(lane, lane.random.below(server.slots));
  if (--lane.generations > 0) {
    pthread_t successor;
    bench::require(pthread_create(&successor, nullptr, run_generation, &lane) == 0, "cannot start a thread");
    pthread_detach(successor);
    return nullptr;
  }
  server.measurement->stop();
  server.measurement->sample();
  for (size_t i = 0; i < server.slots; ++i) free(lane.blocks[i]);
  sem_post(&server.finished);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t low = arguments.number("low", 10);
  size_t high = arguments.number("high", 1000);
  size_t threads = arguments.number("threads", 2);
  server.slots = arguments.number("slots", 1000);
  server.generations = arguments.number("generations", 50);
  server.replacements = arguments.number("operations", 2000000) / threads / server.generations;
  arguments.done();

  bench::Sizes sizes(low, high, false, 17);
  bench::Measurement measurement(threads);
  server.sizes = &sizes;
  server.measurement = &measurement;
  sem_init(&server.finished, 0, 0);
  lanes = bench::table<Lane>(threads);
  for (size_t i = 0; i < threads; ++i) {
    lanes[i] = {bench::table<void*>(server.slots), bench::Random(200 + i), server.generations, i};
    pthread_t thread;
    bench::require(pthread_create(&thread, nullptr, run_generation, &lanes[i]) == 0, "cannot start a thread");
    pthread_detach(thread);
  }
  for (size_t i = 0; i < threads; ++i) sem_wait(&server.finished);
  size_t by_each = server.replacements * server.generations;
  measurement.report(by_each * threads, by_each);
}
