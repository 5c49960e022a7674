// SPDX-License-Identifier: MIT
// Does the allocator give objects of one cache line to different threads? Each thread allocates one small object,
// writes to it many times and frees it, again and again. kind=passive: the main thread first allocates one object for
// each thread and hands them over, and each thread frees its own before it begins: an allocator that then lets it
// allocate from what it has freed there makes the threads share that line.
//
// Sizes and counts are not in Hoard's paper: 8 bytes are scalloc's (table 1), and the writes outweigh the allocations
// by far, as the paper wants it, so that only sharing is seen. An operation is a write. `shared_lines` counts the
// threads whose first object lies on the cache line of another's.
#include "suite.hpp"

namespace {

constexpr size_t kLine = 64;

// Volatile, so that every write reaches the cache.
uint64_t write_often(volatile unsigned char* object, size_t size, size_t writes) {
  for (size_t i = 0; i < size; ++i) object[i] = 0;
  for (size_t turn = 0; turn < writes; ++turn) {
    volatile unsigned char& byte = object[turn % size];
    byte = static_cast<unsigned char>(byte + 1);
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum = sum * 31 + object[i];
  return sum;
}

uintptr_t line_of(const void* object) { return reinterpret_cast<uintptr_t>(object) / kLine; }

size_t count_shared(const uintptr_t* lines, size_t threads) {
  size_t shared = 0;
  for (size_t i = 0; i < threads; ++i) {
    bool found = false;
    for (size_t j = 0; j < threads; ++j) found = found || (i != j && lines[i] == lines[j]);
    shared += found;
  }
  return shared;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "false_sharing", "Hoard 5.3, figures 4a and 4b; scalloc 7.4",
                 "threads write to small objects of their own: do those share cache lines?");
  bool passive = run.choice("kind", "active|passive", "active-false or passive-false") == 1;
  size_t threads = run.threads(2);
  size_t size = run.number("size", 8, "bytes of an object", 1, kLine);
  size_t writes = run.number("writes", 1'000, "writes to an object before it is freed");
  size_t objects = run.scaled("objects", 1'000'000, "objects of all threads together");
  run.begin(threads);

  size_t rounds = objects / threads + 1;
  void** handed = suite::table<void*>(threads);
  uintptr_t* lines = suite::table<uintptr_t>(threads);
  uintptr_t* last_lines = suite::table<uintptr_t>(threads);
  for (size_t i = 0; passive && i < threads; ++i) handed[i] = suite::allocate(size);
  std::atomic<uint64_t> checksum{0};
  suite::Barrier barrier(threads);
  bench::run_threads(threads, [&](size_t thread) {
    if (passive) suite::release(handed[thread]);
    // All have freed, and hold their first object, at the same time: a shared line is shared for long.
    barrier.wait();
    void* object = suite::allocate(size);
    lines[thread] = line_of(object);
    barrier.wait();
    uint64_t sum = 0;
    run.start(thread);
    for (size_t round = 0; round < rounds; ++round) {
      sum += write_often(static_cast<unsigned char*>(object), size, writes);
      suite::release(object);
      object = suite::allocate(size);
    }
    run.stop();
    last_lines[thread] = line_of(object);
    suite::release(object);
    checksum.fetch_add(suite::mix(sum), std::memory_order_relaxed);
  });
  run.add("shared_lines", static_cast<double>(count_shared(lines, threads)));
  run.add("shared_lines_end", static_cast<double>(count_shared(last_lines, threads)));
  run.report(rounds * threads * writes, checksum);
}
