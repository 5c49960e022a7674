// SPDX-License-Identifier: MIT
#include "exchange/freed.hpp"

#include "exchange/chains.hpp"
#include "exchange/registry.hpp"
#include "mixed/mixed.hpp"

namespace coffer {

namespace {

constexpr u32 kTries = 16;  // a list whose owner is at work changes under the walk

bool holds(const Span* span, const Block* list, const Block* wanted) {
  const uptr start = span_start(span);
  const usize bytes = span_bytes(span);
  for (usize i = 0; list != nullptr && i <= bytes / kQuantum; ++i) {
    if (list == wanted) return true;
    // Others may have taken it, and the program written to it.
    if (reinterpret_cast<uptr>(list) - start >= bytes || reinterpret_cast<uptr>(list) % kQuantum != 0) return false;
    list = next_if_signed(list);
  }
  return false;
}

template <class Holds>
bool any_heap(Holds&& holds_one) {
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    if (holds_one(heap_by_index(i))) return true;
  }
  return false;
}

bool is_on_chain(const Span* span, const Block* block) {
  return any_heap([=](Heap* heap) {
    const Chain& chain = chain_of(heap, span);
    return chain.span.get() == span && holds(span, chain.first.get(), block);
  });
}

bool is_on_list(const Span* span, const Block* block) {
  // relaxed, both: a look. Chains first: what is on one is pushed on the remote list next.
  if (is_on_chain(span, block)) return true;
  const RemoteWord word = load_word(span, relaxed);
  const uptr first = word.first() == 0 ? 0 : span_start(span) + uptr{word.first() - 1} * kQuantum;
  if (holds(span, reinterpret_cast<const Block*>(first), block)) return true;
  const Heap* owner = span->owner.load(relaxed);
  const ClassIndex size_class = span->size_class.get();
  if (owner != nullptr && owner->hot[size_class].get() == span && holds(span, owner->blocks[size_class].get(), block)) {
    return true;
  }
  return holds(span, span->local_free.get(), block);
}

// Blocks that were carved from holes and not yet handed out are in use to the table.
bool is_on_hole_list(const Span* span, const Block* block) {
  return any_heap([=](Heap* heap) {
    for (const BlockList& list : heap->blocks) {
      if (holds(span, list.get(), block)) return true;
    }
    return false;
  });
}

}  // namespace

bool is_freed(const Span* span, const void* address) {
  const Block* block = static_cast<const Block*>(address);
  if (!is_signed(block)) return false;
  // On a chain that was open when the span was converted there are blocks still.
  if (is_mixed(span)) return is_on_chain(span, block) || is_on_hole_list(span, block);
  const usize page = (reinterpret_cast<uptr>(block) - span_start(span)) / kCarvePage;
  if (((span->absent.get() >> page) & 1) != 0) return true;
  for (u32 i = 0; i < kTries; ++i) {
    if (is_on_list(span, block)) return true;
  }
  return false;
}

}  // namespace coffer
