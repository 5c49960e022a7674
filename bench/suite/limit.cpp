// SPDX-License-Identifier: MIT
// malloc at the limit of memory: what a small one costs that fails, and one that succeeds there.
//
// by=process limits the address space (RLIMIT_AS) and starts the program anew, so that the allocator is under the limit
// from its first page on: what it has reserved counts. by=library is the allocator's own limit, where it has a function
// coffer_set_limit; elsewhere it is as by=process.
//
// The program fills memory with blocks of one size until malloc gives none. Then it takes the time of `calls` further
// ones, which all have to fail with ENOMEM; then of as many that have room: each time a block is freed, of `calls` that
// lie at equal distances in the order of allocation, and one allocated. What fails there all the same is counted
// (`refused`) and its time taken with the others. At the end all is freed, and malloc has to work again. An operation
// is a call of the first kind.
//
// fail_p50_ns, fail_max_ns, success_p50_ns, success_max_ns: of single calls, without what the clock costs.
// first_fail_ns: of the first call that failed, in which an allocator may look for memory that it could give back.
#include <dlfcn.h>
#include <errno.h>
#include <sys/resource.h>

#include <algorithm>

#include "suite.hpp"

namespace {

struct Block {
  Block* next;
};

struct Times {
  uint64_t* ticks;
  size_t count = 0;

  void add(uint64_t more) { ticks[count++] = more > suite::Ticks::overhead() ? more - suite::Ticks::overhead() : 1; }

  void report(suite::Run& run, const char* p50, const char* most) {
    std::sort(ticks, ticks + count);
    run.add(p50, suite::Ticks::to_ns(ticks[count / 2]));
    run.add(most, suite::Ticks::to_ns(ticks[count - 1]));
  }
};

using SetLimit = int (*)(size_t);

SetLimit own_limit() { return reinterpret_cast<SetLimit>(dlsym(RTLD_DEFAULT, "coffer_set_limit")); }

// Starts the program again under the limit; returns in the one that is under it.
void limit_process(size_t bytes, char** arguments) {
  rlimit limit;
  suite::require(getrlimit(RLIMIT_AS, &limit) == 0, "no limit can be read");
  if (limit.rlim_cur == bytes) return;
  limit.rlim_cur = bytes;
  suite::require(setrlimit(RLIMIT_AS, &limit) == 0, "the limit cannot be set");
  execv("/proc/self/exe", arguments);
  bench::fail("the program cannot be started again");
}

// For the program's own tables: an allocator may keep what it has mapped.
void lift_limit() {
  rlimit limit;
  suite::require(getrlimit(RLIMIT_AS, &limit) == 0, "no limit can be read");
  limit.rlim_cur = limit.rlim_max;
  suite::require(setrlimit(RLIMIT_AS, &limit) == 0, "the limit cannot be lifted");
}

Block* timed_malloc(size_t size, uint64_t& took) {
  uint64_t start = suite::Ticks::now();
  Block* block = static_cast<Block*>(malloc(size));
  took = suite::Ticks::now() - start;
  return block;
}

// Blocks that lie at equal distances in the list, taken out of it.
void take_out(Block* list, size_t all, Block** out, size_t count) {
  size_t step = all / count;
  Block* at = list;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 2; j < step; ++j) at = at->next;
    out[i] = at->next;
    at->next = at->next->next;
  }
}

}  // namespace

int main(int argc, char** argv) {
  char* again[64] = {};
  suite::require(argc < 64, "too many arguments");
  std::copy(argv, argv + argc, again);
  suite::Run run(argc, argv, "limit", "of no paper", "small mallocs that fail at the limit, and that succeed there");
  bool library = run.choice("by", "process|library", "whose limit it is") == 1;
  size_t mib = run.number("mib", 256, "the limit, in MiB", 16, 1 << 20);
  size_t size = run.number("size", 64, "bytes of a block", sizeof(Block), 32'768);
  size_t calls = run.scaled("calls", 1'000, "calls that fail, and that succeed", 10);
  run.done();
  SetLimit set_limit = library ? own_limit() : nullptr;
  if (set_limit == nullptr) limit_process(mib << 20, again);
  run.begin(1);

  Times failing{suite::table<uint64_t>(calls)}, succeeding{suite::table<uint64_t>(calls)};
  Block** chosen = suite::table<Block*>(calls);
  if (set_limit != nullptr) suite::require(set_limit(mib << 20) == 0, "coffer_set_limit failed");
  suite::Ticks::start();

  Block* list = nullptr;
  size_t filled = 0;
  uint64_t took = 0, first_fail;
  while (Block* block = timed_malloc(size, took)) {
    block->next = list;
    list = block;
    suite::require(++filled * size < 2 * (mib << 20), "malloc does not fail at the limit");
  }
  first_fail = took;
  suite::require(filled > calls * 3, "malloc fails too early");

  run.start();
  for (size_t i = 0; i < calls; ++i) {
    errno = 0;
    Block* block = timed_malloc(size, took);
    suite::require(block == nullptr && errno == ENOMEM, "malloc did not fail as it has to");
    failing.add(took);
  }
  run.stop();

  take_out(list, filled, chosen, calls);
  size_t refused = 0;
  for (size_t i = 0; i < calls; ++i) {
    free(chosen[i]);
    chosen[i] = timed_malloc(size, took);
    refused += chosen[i] == nullptr;
    succeeding.add(took);
  }
  run.sample();

  for (size_t i = 0; i < calls; ++i) free(chosen[i]);
  while (list != nullptr) {
    Block* next = list->next;
    free(list);
    list = next;
  }
  for (size_t i = 0; i < calls; ++i) chosen[i] = static_cast<Block*>(suite::allocate(size));
  for (size_t i = 0; i < calls; ++i) suite::release(chosen[i]);

  lift_limit();
  suite::Ticks::stop();
  failing.report(run, "fail_p50_ns", "fail_max_ns");
  succeeding.report(run, "success_p50_ns", "success_max_ns");
  run.add("first_fail_ns", suite::Ticks::to_ns(first_fail));
  run.add("refused", static_cast<double>(refused));
  run.live(filled * size);
  run.report(calls, suite::mix(calls + size));
}
