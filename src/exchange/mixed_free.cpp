// SPDX-License-Identifier: MIT
#include "exchange/mixed_free.hpp"

#include "exchange/bad_pointer.hpp"
#include "exchange/freed.hpp"
#include "exchange/watch.hpp"
#include "mixed/mixed.hpp"
#include "os/os.hpp"
#include "policy/mixing.hpp"
#include "pool/slice_pool.hpp"

namespace coffer {

void count_churn(Heap* heap, u32 bytes, u32 count) {
  Owned<u8>& churn = churn_of(heap, bytes);
  const u32 before = churn.get(), after = before + count;
  if (after / kChurnLook != before / kChurnLook) {
    const u64 now = os::coarse_ns();
    if (now > heap->churn_began.get() + churn_ns(shard_count())) {
      heap->churn_began.set(now);
      for (Owned<u8>& other : heap->churn) other.set(0);
      return;
    }
  }
  churn.set(static_cast<u8>(after < kChurn ? after : kChurn));
}

void free_mixed(Heap* heap, void* block, Span* span, usize least, usize most) {
  if (COFFER_UNLIKELY(may_be_free(block) && is_freed(span, block))) return refuse_free(block);
  forget_sample(block);
  const usize bytes = g_mixed_pool.release(span, block, least, most);
  if (COFFER_UNLIKELY(bytes == 0))
    return g_mixed_pool.size_of(span, block) != 0 ? refuse_size(block, least) : refuse_free(block);
  if (bytes > kLargestSmall || heap == &g_null_heap) return;
  count_churn(heap, static_cast<u32>(bytes), 1);
}

void free_mixed_list(Heap* heap, Block* first, u32 count, Span* span) {
  for (; count > 0; --count) {
    Block* next = count > 1 ? next_of(first) : nullptr;  // the last one may lead to nothing yet
    first->mark = 0;
    free_mixed(heap, first, span);
    first = next;
  }
}

}  // namespace coffer
