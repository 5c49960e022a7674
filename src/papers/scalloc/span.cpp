// SPDX-License-Identifier: MIT
#include "papers/scalloc/span.hpp"

namespace coffer::scalloc {

namespace {

constexpr usize kCarveBytes = 4096;

}  // namespace

void begin_life(Span* span, u32 size_class, u32 reuse_above, Owner owner) {
  span->size_class.set(size_class);
  span->bytes.set(static_cast<u32>(block_bytes(size_class)));
  span->capacity.set(blocks_of(size_class));
  span->reuse_above.set(reuse_above);
  // relaxed, all: published by the transition to hot. Somebody late, of an earlier life, may read a mixture; the
  // transition that he tries from his old epoch fails.
  span->interior.store(0, relaxed);
  span->local_first.set(nullptr);
  span->carved.set(0);
  span->purged.set(0);
  span->local_count.store(blocks_of(size_class), relaxed);
  span->remote.store(0, relaxed);
  span->owner.store(owner, relaxed);
}

bool carve(Span* span) {
  const u32 from = span->carved.get();
  const u32 capacity = span->capacity.get();
  if (from >= capacity) return false;
  u32 count = static_cast<u32>(kCarveBytes / span->bytes.get());
  if (count == 0) count = 1;
  if (count > capacity - from) count = capacity - from;
  for (u32 i = from; i + 1 < from + count; ++i) span->block(i)->next.set(span->block(i + 1));
  span->block(from + count - 1)->next.set(nullptr);
  span->carved.set(from + count);
  compiler_fence();  // a fork child rather loses these blocks than finds them twice
  span->local_first.set(span->block(from));
  return true;
}

void take_remotes(Span* span) {
  // acquire: pairs with push_remote, whose blocks are read from here on.
  const RemoteTop taken{span->remote.exchange(0, acquire)};
  if (taken.count() == 0) return;
  span->local_first.set(taken.first());
  // relaxed: as in pop_local.
  span->local_count.store(span->local_count.load(relaxed) + taken.count(), relaxed);
}

void recount_local(Span* span) {
  u32 count = span->capacity.get() - span->carved.get();
  for (Block* block = span->local_first.get(); block != nullptr; block = block->next.get()) ++count;
  span->local_count.store(count, relaxed);  // relaxed: as in pop_local
}

bool try_refill_from_remotes(Span* span) {
  // relaxed: whether it is worth it; take_remotes acquires.
  if (RemoteTop{span->remote.load(relaxed)}.count() <= span->reuse_above.get()) return false;
  take_remotes(span);
  return true;
}

}  // namespace coffer::scalloc
