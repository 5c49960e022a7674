// SPDX-License-Identifier: MIT
// Threads that start, allocate a little and end, `together` at a time. With keep=1 they leave half of their blocks to
// the main thread, which frees them when their thread is gone. An operation is a thread.
#include "bench.hpp"

namespace {

constexpr size_t kMostBlocks = 1024;

struct Job {
  const bench::Sizes* sizes;
  size_t count, keep, first;
  void* blocks[kMostBlocks];
};

void* run_job(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  for (size_t i = 0; i < job.count; ++i) job.blocks[i] = bench::allocate((*job.sizes)[job.first + i]);
  for (size_t i = job.keep; i < job.count; ++i) free(job.blocks[i]);
  return nullptr;
}

void run(Job* jobs, pthread_t* threads, size_t together) {
  for (size_t i = 0; i < together; ++i) {
    bench::require(pthread_create(&threads[i], nullptr, run_job, &jobs[i]) == 0, "cannot start a thread");
  }
  for (size_t i = 0; i < together; ++i) pthread_join(threads[i], nullptr);
  for (size_t i = 0; i < together; ++i) {
    for (size_t k = 0; k < jobs[i].keep; ++k) free(jobs[i].blocks[k]);
    jobs[i].first += jobs[i].count;
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t blocks = arguments.number("blocks", 100);
  bool keep = arguments.number("keep", 0) != 0;
  size_t together = arguments.number("together", 2);
  size_t rounds = arguments.number("operations", 2000) / together;
  arguments.done();
  bench::require(blocks <= kMostBlocks, "too many blocks");

  bench::Sizes sizes(16, 512, false, 19);
  Job* jobs = bench::table<Job>(together);
  pthread_t* threads = bench::table<pthread_t>(together);
  for (size_t i = 0; i < together; ++i) {
    jobs[i].sizes = &sizes;
    jobs[i].count = blocks;
    jobs[i].keep = keep ? blocks / 2 : 0;
    jobs[i].first = i * blocks;
  }
  bench::Measurement measurement(1);
  for (size_t i = 0; i < rounds / 8 + 1; ++i) run(jobs, threads, together);
  measurement.start();
  for (size_t i = 0; i < rounds; ++i) run(jobs, threads, together);
  measurement.stop();
  measurement.report(rounds * together, rounds * together);
}
