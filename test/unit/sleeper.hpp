// SPDX-License-Identifier: MIT
// A thread that owns spans and sleeps; and heaps as if their thread had been stopped, or another had them.
#pragma once

#include "heaps.hpp"

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
      const ClassIndex size_class = span_of(spans[0][0])->size_class.get();
      t_heap->hot[size_class].set(nullptr);  // the last one floats, too
      Span* last = span_of(spans.back()[0]);
      keep_from_malloc(last);
      set_countdown(last, 0, reuse_threshold(last->capacity.get()));
      mark_floating(last);
    });
    return spans;
  }
};

// A full span that is nobody's: its blocks.
inline Blocks take_orphans() {
  Blocks orphans;
  Worker other;
  other.run([&] {
    orphans = take_many(kCapacity);
    empty_own_heap();
  });
  return orphans;
}

// What a thread did that has ended: its heap, which waits whole, and the blocks that it took.
struct Ended {
  Heap* heap = nullptr;
  Blocks blocks;
  template <class Take>
  explicit Ended(Take&& take) {
    Worker thread;
    thread.run([&] {
      heap = own_heap();
      blocks = take();
    });
  }
};

inline usize mail_of(const Heap* heap) { return mail_bytes(heap->mailbox.load(relaxed)); }

// Seizes the heap; whether it was got. The test's own thread works with it meanwhile.
inline bool seize_one(Heap* heap, void (*work)(Heap*)) { return seize(&heap, 1, work) == 1; }
inline bool empty_one(Heap* heap) { return seize_one(heap, empty_heap); }

// As if the heap's thread had been stopped there: in the middle of a call.
class Stopped {
 public:
  Stopped(Heap* heap, uptr inside) : heap_(heap) { heap->inside.store(inside, release); }
  ~Stopped() { heap_->inside.store(kOutside, release); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  Heap* heap_;
};
inline uptr at_work_on(const Span* span) { return reinterpret_cast<uptr>(span); }

// As if another thread had the heap.
class Seized {
 public:
  explicit Seized(Heap* heap) : heap_(heap) { heap->self.store(&g_null_heap, release); }
  ~Seized() { heap_->self.store(heap_, release); }
  Seized(const Seized&) = delete;
  Seized& operator=(const Seized&) = delete;

 private:
  Heap* heap_;
};

// A sleeper with some of everything: two floating spans, a mailed one, a reusable and a hot one.
struct Full : Sleeper {
  static constexpr u32 kMany = kCapacity / 2;  // half empty
  std::vector<Blocks> spans;
  Blocks hot;
  Span *floating, *mailed, *reusable, *its_hot;
  Full() {
    spans = fill(4);
    thread.run([&] {
      give_many(spans[2], 0, kThreshold);
      hot = take_many(kThreshold + 3 * kBlocksPerPage + 1);  // the reusable span's, then a new one's
      give_many(spans[3], 0, kMany);
    });
    its_hot = span_of(hot.back());
    floating = span_of(spans[0][0]);
    mailed = span_of(spans[1][0]);
    reusable = span_of(spans[3][kMany]);
    push_blocks(spans[1], 0, kMany);
    EXPECT_EQ(life_of(floating), SpanLife::floating);
    EXPECT_EQ(life_of(reusable), SpanLife::reusable);
    EXPECT_EQ(life_of(its_hot), SpanLife::hot);
    EXPECT_NE(heap->blocks[kClass].get(), nullptr);
    EXPECT_TRUE(is_mailed(mailed));
    EXPECT_EQ(check_everything(), 0u);
  }
  void expect_untouched() const {
    EXPECT_TRUE(is_mailed(mailed));
    EXPECT_EQ(life_of(reusable), SpanLife::reusable);
    EXPECT_EQ(life_of(its_hot), SpanLife::hot);
    EXPECT_EQ(heap->self.load(relaxed), heap);
    EXPECT_TRUE(listed_spans().empty());
  }
  // It goes on: every block of its own can be freed, and new ones had.
  void expect_to_go_on() {
    thread.run([&] {
      Blocks more = take_many(3 * kCapacity);
      give_many(hot);
      give_many(spans[0]);
      give_many(spans[1], kMany);
      give_many(spans[2], kThreshold);
      give_many(spans[3], kMany);
      give_now(more);
    });
    EXPECT_EQ(check_everything(), 0u);
    EXPECT_TRUE(empty_one(heap));
    EXPECT_EQ(check_everything(), 0u);
    EXPECT_EQ(held_by(heap), 0u);
    EXPECT_EQ(held_bytes(), 0u);
  }
};

// New slices after which a heap that slept is stolen from, where there are few heaps: 1 MiB.
inline constexpr u32 kIdleSlices = 32;

}  // namespace coffer::test
