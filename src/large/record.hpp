// SPDX-License-Identifier: MIT
// What both kinds of large blocks share: the record of their first slice, which tells them, and what growth owes to
// locked memory. For the files of this folder.
#pragma once

#include "span/span.hpp"

namespace coffer {

inline u32 slices_for(usize size) { return static_cast<u32>(divide_up(size, kSliceBytes)); }

// `bytes` from `start`, where the record's slice starts; the block lies `offset` behind that.
void describe_large(Span* span, uptr start, usize offset, usize bytes, u32 slices, u32 chunks);

// What a block has grown by, from `before` to `after` bytes behind its run's start, may have been purged before.
void keep_growth_locked(uptr start, usize before, usize after);

}  // namespace coffer
