// SPDX-License-Identifier: MIT
// The same calls over and over, for counting instructions: two runs that differ only in their number of rounds differ
// by what the rounds cost. Built twice: once calling malloc, calloc and free, once calling stubs of known length
// (instructions_stub.cpp) in the same way; what remains of the difference is the allocator's alone, without the loop,
// the calls and the writes.
#include <link.h>

#include "bench.hpp"

#ifdef BENCH_STUB
#define BENCH_SYMBOL(name) __asm__("bench_stub_" name)
#else
#define BENCH_SYMBOL(name) __asm__(name)
#endif

// Declared here, so that the compiler knows nothing about them in either build.
extern "C" {
void* test_malloc(size_t size) BENCH_SYMBOL("malloc");
void* test_calloc(size_t count, size_t size) BENCH_SYMBOL("calloc");
void test_free(void* block) BENCH_SYMBOL("free");
}

namespace {

constexpr size_t kBatch = 1000;
constexpr size_t kWindow = 100;
constexpr size_t kOrders = 16;
constexpr size_t kGround = size_t{2} << 20;

void* blocks[kBatch];
uint32_t orders[kOrders][kBatch];

void* allocate(size_t size) {
  void* block = test_malloc(size);
  *static_cast<volatile char*>(block) = 1;
  return block;
}

void run_pair(size_t rounds, size_t size) {
  for (size_t i = 0; i < rounds; ++i) test_free(allocate(size));
}

void run_mixed(size_t rounds, const bench::Sizes& sizes) {
  for (size_t i = 0; i < rounds; ++i) test_free(allocate(sizes[i]));
}

void run_calloc(size_t rounds, size_t size) {
  for (size_t i = 0; i < rounds; ++i) {
    void* block = test_calloc(1, size);
    *static_cast<volatile char*>(block) = 1;
    test_free(block);
  }
}

void run_window(size_t rounds, size_t size) {
  for (size_t done = 0; done < rounds; done += kWindow) {
    for (size_t i = 0; i < kWindow; ++i) {
      test_free(blocks[i]);
      blocks[i] = allocate(size);
    }
  }
}

void run_batch(size_t rounds, size_t size) {
  for (size_t done = 0, batch = 0; done < rounds; done += kBatch, ++batch) {
    for (size_t i = 0; i < kBatch; ++i) blocks[i] = allocate(size);
    const uint32_t* order = orders[batch % kOrders];
    for (size_t i = 0; i < kBatch; ++i) test_free(blocks[order[i]]);
  }
}

// Random replacement in a working set of kBatch blocks of random sizes.
void run_replace(size_t rounds, const bench::Sizes& sizes) {
  for (size_t i = 0; i < rounds; ++i) {
    size_t slot = orders[(i / kBatch) % kOrders][i % kBatch];
    test_free(blocks[slot]);
    blocks[slot] = allocate(sizes[i]);
  }
}

// A signal between two threads, through a pipe: it always takes the same instructions, while a semaphore takes more
// when somebody waits, which depends on the moment.
class Signal {
 public:
  void open() { bench::require(pipe(ends_) == 0, "no pipe"); }

  void send() {
    char byte = 0;
    bench::require(write(ends_[1], &byte, 1) == 1, "cannot signal");
  }

  void wait() {
    char byte;
    bench::require(read(ends_[0], &byte, 1) == 1, "cannot wait");
  }

 private:
  int ends_[2];
};

Signal filled, drained;

void* free_all(void*) {
  for (;;) {
    filled.wait();
    if (blocks[0] == nullptr) return nullptr;
    for (size_t i = 0; i < kBatch; ++i) test_free(blocks[i]);
    drained.send();
  }
}

// One thread allocates a batch, the other frees it; they take turns, so that nobody spins.
void run_remote(size_t rounds, size_t size) {
  pthread_t thread;
  filled.open();
  drained.open();
  bench::require(pthread_create(&thread, nullptr, free_all, nullptr) == 0, "cannot start a thread");
  for (size_t done = 0; done < rounds; done += kBatch) {
    for (size_t i = 0; i < kBatch; ++i) blocks[i] = allocate(size);
    filled.send();
    drained.wait();
  }
  blocks[0] = nullptr;
  filled.send();
  pthread_join(thread, nullptr);
}

void shuffle_orders() {
  bench::Random random(23);
  for (auto& order : orders) {
    for (size_t i = 0; i < kBatch; ++i) order[i] = static_cast<uint32_t>(i);
    for (size_t i = kBatch; i > 1; --i) {
      size_t j = random.below(i);
      uint32_t other = order[j];
      order[j] = order[i - 1];
      order[i - 1] = other;
    }
  }
}

// "code FROM TO BIAS FILE" for each range of code in the process, FILE empty for the program itself: an address minus
// the bias is one in the file. Callgrind leaves out which file it is for some linkage tables.
int print_code(dl_phdr_info* object, size_t, void*) {
  for (size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const size_t from = object->dlpi_addr + segment.p_vaddr;
    printf("code %zx %zx %zx %s\n", from, from + segment.p_memsz, static_cast<size_t>(object->dlpi_addr),
           object->dlpi_name);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  const char* what = arguments.text("what", "pair");
  size_t size = arguments.number("size", 64);
  size_t rounds = arguments.number("rounds", 20000);
  bool code = arguments.number("code", 0) != 0;
  arguments.done();

  shuffle_orders();
  bench::Sizes sizes(16, 512, false, 29);
  // Live to the end. What the first blocks of a small process cost differs from run to run, by more than 1 % of what is
  // counted, and says nothing about a pair.
  allocate(kGround);
  auto is = [what](const char* name) { return strcmp(what, name) == 0; };
  if (is("pair"))
    run_pair(rounds, size);
  else if (is("mixed"))
    run_mixed(rounds, sizes);
  else if (is("calloc"))
    run_calloc(rounds, size);
  else if (is("window"))
    run_window(rounds, size);
  else if (is("batch"))
    run_batch(rounds, size);
  else if (is("replace"))
    run_replace(rounds, sizes);
  else if (is("remote"))
    run_remote(rounds, size);
  else
    bench::fail("what is not known");
  if (code) {
    dl_iterate_phdr(print_code, nullptr);
    bench::require(fflush(stdout) == 0, "cannot write");
  }
  bench::Measurement::print(0, 0, rounds, 0, 0);
}
