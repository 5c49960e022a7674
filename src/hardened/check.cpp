// SPDX-License-Identifier: MIT
// coffer_check of the hardened build: after what the default build looks at, every block. Other threads must be outside
// meanwhile.
#include "arena/each.hpp"
#include "base/text.hpp"
#include "exchange/registry.hpp"
#include "hardened/allocator.hpp"
#include "hardened/canary.hpp"
#include "hardened/fenced.hpp"
#include "hardened/rest.hpp"
#include "os/os.hpp"

namespace coffer::hardened {

namespace {

class Checker {
 public:
  usize violations() const { return violations_; }

  void check_span(const Span* span) {
    const u64 carved = ~span->absent.get() & low_mask(span->slices.get() * kPagesPerSlice);
    const usize have = span->block_bytes.get();
    for_each_page(span, carved, [&](u32, u32 from, u32 to) {
      for (u32 i = from; i < to; ++i) check_block(block_at(span, i), have);
    });
  }

  // In whole, also what the heaps have of a block that is free to them.
  void check_rests() {
    for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
      const Rest* const rest = rest_of(heap_by_index(i));
      if (rest == nullptr) continue;
      const auto check = [&](const void* block, usize have) {
        expect(is_untouched(block, have, 0), "written to after it was freed", block, have);
      };
      rest->for_each_quick(check);
      rest->for_each_foreign([&](void* block) { check(block, length_of(block)); });
      rest->queue.for_each([&](Resting resting) { check(resting.block(), bytes_of(resting)); });
    }
  }

 private:
  void check_block(const Block* block, usize have) {
    // Its heap has the first bytes of a free one.
    if (is_untouched(block, have, sizeof(Block))) return;
    const Found found = read_canary(block, have).found;
    expect(found != Found::freed, "written to after it was freed", block, have);
    expect(found != Found::broken, "written to behind its end", block, have);
  }

  void expect(bool holds, const char* what, const void* block, usize have) {
    if (COFFER_LIKELY(holds)) return;
    ++violations_;
    TextBuffer<200> line;
    line.add("coffer: check: block ").hex(reinterpret_cast<uptr>(block)).add(": ").add(what);
    line.add(" (size class ").number(have).add(')');
    os::write_line(line);
  }

  usize violations_ = 0;
};

}  // namespace

usize check() {
  const usize below = PlainAllocator::check();
  Checker checker;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](const Span* span, SliceUse slice_use) {
      if (slice_use == SliceUse::span) checker.check_span(span);
    });
  });
  checker.check_rests();
  return below + checker.violations();
}

}  // namespace coffer::hardened
