// SPDX-License-Identifier: MIT
// Buffers that grow by realloc, step by step and in turn, each new page written: one alone, or several that stand in
// each other's way. An operation is a realloc.
#include "suite.hpp"

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "growth", "of no paper", "buffers that grow by realloc");
  size_t limit = run.number("limit", 30'000'000, "bytes of a buffer in the end");
  size_t step = run.number("step", 100'000, "bytes that it grows by", 8);
  size_t buffers = run.number("buffers", 1, "buffers that grow in turn");
  size_t repeat = run.scaled("repeat", 20, "times that all is done");
  if (step > limit) run.reject("step is above limit");
  run.begin(1);

  char** blocks = suite::table<char*>(buffers);
  size_t operations = 0;
  uint64_t checksum = 0;
  run.start();
  for (size_t turn = 0; turn < repeat; ++turn) {
    size_t size = 0;
    while (size + step <= limit) {
      size += step;
      for (size_t i = 0; i < buffers; ++i) {
        blocks[i] = static_cast<char*>(suite::reallocate(blocks[i], size));
        bench::touch(blocks[i] + size - step, step);
        blocks[i][size - 1] = static_cast<char>(size / step + i);
        ++operations;
      }
    }
    // Every step has left its mark, and the moves have kept it.
    for (size_t i = 0; i < buffers; ++i) {
      for (size_t at = step; at <= size; at += step) {
        suite::require(blocks[i][at - 1] == static_cast<char>(at / step + i), "realloc lost the content");
        checksum += suite::mix(at + i);
      }
      suite::release(blocks[i]);
      blocks[i] = nullptr;
    }
  }
  run.stop();
  run.live(buffers * limit);
  run.report(operations, checksum);
}
