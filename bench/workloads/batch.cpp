// SPDX-License-Identifier: MIT
// A batch of blocks of one size, then all of them freed: last first (lifo), first first (fifo), in random order, or as
// a window (each block freed when `count` younger ones live). An operation is a malloc and a free.
#include "bench.hpp"

namespace {

// Orders of freeing: a new one for each batch, so that a list never gets back the order it had.
constexpr size_t kOrders = 32;

enum class Order { lifo, fifo, random, window };

Order parse(const char* text) {
  if (strcmp(text, "lifo") == 0) return Order::lifo;
  if (strcmp(text, "fifo") == 0) return Order::fifo;
  if (strcmp(text, "random") == 0) return Order::random;
  bench::require(strcmp(text, "window") == 0, "order is lifo, fifo, random or window");
  return Order::window;
}

uint32_t* make_orders(Order order, size_t count) {
  uint32_t* orders = bench::table<uint32_t>(kOrders * count);
  bench::Random random(7);
  for (size_t k = 0; k < kOrders; ++k) {
    uint32_t* one = orders + k * count;
    for (size_t i = 0; i < count; ++i) one[i] = static_cast<uint32_t>(order == Order::lifo ? count - 1 - i : i);
    if (order != Order::random) continue;
    for (size_t i = count; i > 1; --i) {
      size_t j = random.below(i);
      uint32_t other = one[j];
      one[j] = one[i - 1];
      one[i - 1] = other;
    }
  }
  return orders;
}

void run_batches(void** blocks, const uint32_t* orders, size_t count, size_t size, size_t batches) {
  for (size_t batch = 0; batch < batches; ++batch) {
    const uint32_t* order = orders + (batch % kOrders) * count;
    for (size_t i = 0; i < count; ++i) blocks[i] = bench::allocate(size);
    for (size_t i = 0; i < count; ++i) free(blocks[order[i]]);
  }
}

void run_window(void** blocks, size_t count, size_t size, size_t batches) {
  for (size_t batch = 0; batch < batches; ++batch) {
    for (size_t i = 0; i < count; ++i) {
      free(blocks[i]);
      blocks[i] = bench::allocate(size);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  Order order = parse(arguments.text("order", "random"));
  size_t count = arguments.number("count", 1000);
  size_t size = arguments.number("size", 64);
  size_t threads = arguments.number("threads", 1);
  size_t batches = arguments.number("operations", 4000000) / threads / count;
  arguments.done();

  const uint32_t* orders = make_orders(order, count);
  bench::Measurement measurement(threads);
  bench::run_threads(threads, [&](size_t) {
    void** blocks = bench::table<void*>(count);
    auto run = [&](size_t n) {
      if (order == Order::window) return run_window(blocks, count, size, n);
      run_batches(blocks, orders, count, size, n);
    };
    run(batches / 8 + 1);
    measurement.start();
    run(batches);
    measurement.stop();
    measurement.sample();
    if (order != Order::window) return;
    for (size_t i = 0; i < count; ++i) free(blocks[i]);
  });
  measurement.report(batches * count * threads, batches * count);
}
