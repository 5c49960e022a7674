// SPDX-License-Identifier: MIT
#include "large/record.hpp"

#include "os/os.hpp"

namespace coffer {

void describe_large(Span* span, uptr start, usize offset, usize bytes, u32 slices, u32 chunks) {
  span->owner.store(nullptr, relaxed);  // relaxed, here and below: see describe_slices in span.cpp
  span->limit = 0;
  span->first_block = start + offset;
  set_large_bytes(span, bytes);
  span->large_chunks.set(chunks);
  span->slices.set(static_cast<u8>(slices));
  span->use.store(SliceUse::large, release);  // release: pairs with the CAS in end_large
}

void keep_growth_locked(uptr start, usize before, usize after) {
  const usize page = os::page_size();
  const uptr from = round_down(start + before, page);
  const uptr to = round_up(start + after, page);
  if (to > from) os::keep_locked(reinterpret_cast<void*>(from), to - from);
}

}  // namespace coffer
