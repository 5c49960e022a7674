// SPDX-License-Identifier: MIT
#include "exchange/mixed_free.hpp"

#include "exchange/bad_pointer.hpp"
#include "exchange/watch.hpp"
#include "mixed/mixed.hpp"

namespace coffer {

void free_mixed(Heap* heap, void* block, Span* span, usize size) {
  forget_sample(block);
  const usize bytes = g_mixed_pool.release(span, block, size);
  if (COFFER_UNLIKELY(bytes == 0))
    return g_mixed_pool.size_of(span, block) != 0 ? refuse_size(block, size) : refuse_free(block);
  if (bytes > kLargestSmall || heap == &g_null_heap) return;
  Owned<u8>& churn = heap->churn[class_of(bytes)];
  if (churn.get() < kChurn) churn.set(static_cast<u8>(churn.get() + 1));
}

void free_mixed_list(Heap* heap, Block* first, u32 count, Span* span) {
  for (; count > 0; --count) {
    Block* next = first->next;
    free_mixed(heap, first, span);
    first = next;
  }
}

}  // namespace coffer
