// SPDX-License-Identifier: MIT
// Sixteen threads in a ring: each takes a batch of blocks from its queue, frees it, allocates one of the same number
// of bytes and hands it on. Where blocks stay with the thread that allocated them, or go to the one that freed them,
// every thread comes to hold a batch of its own.
#include "pattern.hpp"

namespace {

constexpr size_t kMostThreads = 64;

struct Batch {
  pattern::Blocks blocks;
  size_t hops;  // that are left
};

// Batches that wait for a thread; at most as many as there are.
class Queue {
 public:
  void push(Batch* batch) {
    pthread_mutex_lock(&mutex_);
    batches_[(first_ + count_++) % kMostThreads] = batch;
    pthread_cond_signal(&filled_);
    pthread_mutex_unlock(&mutex_);
  }

  Batch* pop() {
    pthread_mutex_lock(&mutex_);
    while (count_ == 0) pthread_cond_wait(&filled_, &mutex_);
    Batch* batch = batches_[first_];
    first_ = (first_ + 1) % kMostThreads;
    --count_;
    pthread_mutex_unlock(&mutex_);
    return batch;
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t filled_ = PTHREAD_COND_INITIALIZER;
  Batch* batches_[kMostThreads] = {};
  size_t first_ = 0, count_ = 0;
};

struct Ring {
  size_t threads, bytes;
  bool shuffle;
  pattern::Mix mix;
  pattern::Figures* figures;
  Queue queues[kMostThreads];
  pthread_mutex_t sampling = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<size_t> live{0};
  sem_t finished;
};

void work(void* shared, size_t index) {
  Ring& ring = *static_cast<Ring*>(shared);
  pattern::Random random(100 + index);
  pattern::get_used();
  while (Batch* batch = ring.queues[index].pop()) {
    ring.live.fetch_sub(batch->blocks.bytes(), std::memory_order_relaxed);
    if (ring.shuffle) batch->blocks.shuffle(random);
    batch->blocks.release_all();
    if (batch->hops-- == 0) {
      sem_post(&ring.finished);
      continue;
    }
    batch->blocks.fill(ring.bytes, ring.mix, random);
    size_t live = ring.live.fetch_add(batch->blocks.bytes(), std::memory_order_relaxed) + batch->blocks.bytes();
    pthread_mutex_lock(&ring.sampling);
    ring.figures->sample(live);
    pthread_mutex_unlock(&ring.sampling);
    ring.queues[(index + 1) % ring.threads].push(batch);
  }
}

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("ring");
  bench::Arguments arguments(argc, argv);
  static Ring ring;
  ring.threads = arguments.number("threads", 16);
  size_t bytes = arguments.number("bytes", 9'500'000);
  size_t batches = arguments.number("batches", 1);
  size_t laps = arguments.number("laps", 2);
  ring.shuffle = arguments.number("shuffle", 0) != 0;
  ring.mix = {arguments.number("low", 16), arguments.number("high", 1024), arguments.number("octaves", 1) != 0};
  arguments.done();
  pattern::require(ring.threads <= kMostThreads && batches <= ring.threads && batches > 0, "too many threads");

  ring.bytes = bytes / batches;
  ring.figures = &figures;
  sem_init(&ring.finished, 0, 0);
  Batch* all = bench::table<Batch>(batches);
  for (size_t i = 0; i < batches; ++i) {
    all[i].blocks.make(ring.bytes / ring.mix.average() * 5 / 4 + 1000);
    all[i].hops = ring.threads * laps;
  }
  pattern::Threads threads;
  threads.make(ring.threads);
  figures.own_memory_done();

  for (size_t i = 0; i < ring.threads; ++i) threads.start(work, &ring);
  for (size_t i = 0; i < batches; ++i) ring.queues[i * ring.threads / batches].push(&all[i]);
  for (size_t i = 0; i < batches; ++i) pattern::wait(ring.finished);
  figures.live_at(bytes);
  figures.report(figures.now());
  // The other threads sleep in their queues; a process that ends does not wait for them.
  _exit(0);
}
