// SPDX-License-Identifier: MIT
// A thread that owns spans and sleeps, and what becomes of the spans that are claimed from it.
#pragma once

#include "heap/heaps.hpp"

namespace coffer::test {

// The owner that sleeps: a thread with a heap, and spans of its own.
struct Sleeper {
  Worker thread;
  Heap* heap = nullptr;
  Sleeper() {
    thread.run([&] { heap = own_heap(); });
  }
  // Full spans, all floating; their blocks, span by span.
  std::vector<Blocks> fill(u32 count, usize size = kSize) {
    std::vector<Blocks> spans;
    thread.run([&] {
      for (u32 i = 0; i < count; ++i) {
        Blocks blocks = {take(size)};
        const u32 capacity = span_of(blocks[0])->capacity.get();
        while (blocks.size() < capacity) blocks.push_back(take(size));
        spans.push_back(blocks);
      }
      give(take(size));  // the last one floats, too
    });
    return spans;
  }
};

inline bool is_mailed(const Span* span) { return owner_of(span) != nullptr && is_handed_on(span); }
inline bool is_taken(const Span* span) {
  return owner_of(span) == nullptr && state_of(span) == SpanState::claimed && is_handed_on(span);
}

}  // namespace coffer::test
