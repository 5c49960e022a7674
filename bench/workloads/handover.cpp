// SPDX-License-Identifier: MIT
// Producer and consumer: one thread allocates and fills blocks, another reads and frees them, through a ring. Every
// free is remote. An operation is a block: malloc, hand-over, free.
//
// Blocks travel in parcels, so that the ring's own cache misses do not hide the allocator's.
#include "bench.hpp"

namespace {

constexpr size_t kParcel = 32;
constexpr size_t kParcels = 32;

struct alignas(128) Ring {
  alignas(128) std::atomic<size_t> produced{0};
  alignas(128) std::atomic<size_t> consumed{0};
  alignas(128) void* blocks[kParcels][kParcel];
};

// With more runnable threads than processors a spin would wait for a thread that waits for this processor.
template <class Condition>
void wait_until(Condition&& condition) {
  for (size_t turns = 1; !condition(); ++turns) {
    if (turns % 256 == 0) sched_yield();
  }
}

void produce(Ring& ring, const bench::Sizes& sizes, size_t first, size_t last) {
  for (size_t parcel = first; parcel < last; ++parcel) {
    wait_until([&] { return parcel - ring.consumed.load(std::memory_order_acquire) < kParcels; });
    for (size_t i = 0; i < kParcel; ++i) {
      ring.blocks[parcel % kParcels][i] = bench::allocate(sizes[parcel * kParcel + i]);
    }
    ring.produced.store(parcel + 1, std::memory_order_release);
  }
}

void consume(Ring& ring, size_t first, size_t last, uint64_t& sum) {
  for (size_t parcel = first; parcel < last; ++parcel) {
    wait_until([&] { return ring.produced.load(std::memory_order_acquire) > parcel; });
    for (size_t i = 0; i < kParcel; ++i) {
      void* block = ring.blocks[parcel % kParcels][i];
      sum += *static_cast<uint64_t*>(block);
      free(block);
    }
    ring.consumed.store(parcel + 1, std::memory_order_release);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t low = arguments.number("low", 64);
  size_t high = arguments.number("high", 64);
  size_t parcels = arguments.number("operations", 1000000) / kParcel;
  arguments.done();

  static Ring ring;
  bench::Sizes sizes(low, high, false, 13);
  bench::Measurement measurement(2);
  size_t warm = parcels / 8;
  uint64_t sum = 0;
  bench::run_threads(2, [&](size_t index) {
    if (index == 0) {
      produce(ring, sizes, 0, warm);
      measurement.start();
      produce(ring, sizes, warm, warm + parcels);
      measurement.stop();
      measurement.sample();
    } else {
      consume(ring, 0, warm, sum);
      measurement.start();
      consume(ring, warm, warm + parcels, sum);
      measurement.stop();
    }
  });
  bench::require(sum >= low * parcels * kParcel, "blocks were damaged");
  // Both threads work on every block.
  measurement.report(parcels * kParcel, parcels * kParcel);
}
