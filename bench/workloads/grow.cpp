// SPDX-License-Identifier: MIT
// Buffers that grow by realloc, step by step and in turn, to `limit` bytes, each new page written. An operation is a
// realloc.
#include "bench.hpp"

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t limit = arguments.number("limit", 30000000);
  size_t step = arguments.number("step", 100000);
  size_t buffers = arguments.number("buffers", 1);
  size_t repeat = arguments.number("repeat", 5);
  arguments.done();

  bench::Measurement measurement(1);
  char** blocks = bench::table<char*>(buffers);
  size_t operations = 0;
  auto grow = [&](bool last) {
    for (size_t size = step; size <= limit; size += step) {
      for (size_t i = 0; i < buffers; ++i) {
        blocks[i] = static_cast<char*>(realloc(blocks[i], size));
        bench::require(blocks[i] != nullptr, "realloc failed");
        bench::require(size == step || blocks[i][size - step - 1] == 1, "realloc lost the content");
        bench::touch(blocks[i] + size - step, step);
        ++operations;
      }
    }
    if (last) measurement.sample();
    for (size_t i = 0; i < buffers; ++i) {
      free(blocks[i]);
      blocks[i] = nullptr;
    }
  };
  grow(false);
  operations = 0;
  measurement.start();
  for (size_t i = 0; i < repeat; ++i) grow(i + 1 == repeat);
  measurement.stop();
  measurement.report(operations, operations);
}
