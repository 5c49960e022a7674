// SPDX-License-Identifier: MIT
// Large blocks of the hardened build: whole pages between inaccessible ones.
//
//   the heap's large block | closed: a page or more | the program's pages | closed, to the end |
//                          ^ a slice begins          ^ what malloc returns
//
// Closed is by markers in the page tables, of Linux 6.13, which need no mapping of their own; where there are none, by
// the rights of mappings. How many pages lie in front is a matter of chance. A block with an alignment of over half a
// slice has none in front: what the program has then begins the heap's block. When the block is freed its pages are
// given back and all of it is closed. When it has rested (rest.hpp), the thread's next block of about that length gets
// it as it is, and opens what it needs; or all is opened, and goes to the heap.
//
// What the block is stands in the record of its first slice, in fields that only spans of a class use otherwise.
#pragma once

#include "span/span.hpp"

namespace coffer::hardened {

enum class Fence : u32 {
  none = 0,  // the heap's large block is the program's, with a canary: no span could be had for its size
  live = 1,
  resting = 2,
};
// Beside that, how some of it was closed: what opens it undoes all that may be.
inline constexpr u32 kByMarkers = 4, kByRights = 8;
inline Fence fence_of(const Span* span) { return static_cast<Fence>(span->capacity.get() & 3); }
// As a block's first state. The other keeps how it was closed.
inline void set_fence(Span* span, Fence fence) { span->capacity.set(static_cast<u32>(fence)); }
inline void change_fence(Span* span, Fence fence) {
  span->capacity.set((span->capacity.get() & ~3u) | static_cast<u32>(fence));
}
// Where the program's part begins, and its bytes.
inline uptr fenced_start(const Span* span) { return span->first_block + span->block_bytes.get(); }
inline usize fenced_bytes(const Span* span) { return span->multiplier; }

// A block of the heap that is no fenced one (a guarded sample) is `plain`. Both nullptr: no memory.
struct NewFenced {
  void* block;
  void* plain;
  usize plain_bytes;
};
// All of it is zero. `room`: closed bytes behind it, in which it can grow; if they are to be had.
NewFenced allocate_fenced(usize size, usize alignment, usize room = 0);
// `given`: the size that the caller named, or kNoSize. Reports what is not the start of a live one.
void release_fenced(void* block, Span* span, usize given);
// nullptr: it has to move, or `size` is less than half of it.
void* resize_fenced(void* block, Span* span, usize size);
// Bytes of the program's; reports as above.
usize size_of_fenced(const char* call, void* block, const Span* span);
// Of the heap's block, which is all of a fenced one: its length in whole pages.
usize fenced_length(const void* heaps_block);
// It leaves the quarantine. false: the kernel does not open it.
bool end_fenced(void* heaps_block);

}  // namespace coffer::hardened
