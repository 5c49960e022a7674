// SPDX-License-Identifier: MIT
#include "observe/callers.hpp"

#include "base/atomic.hpp"
#include "os/os.hpp"

namespace coffer {

namespace {

// Where Coffer's library lies; an end of 1: it is none.
Atomic<uptr> g_library_begin, g_library_end;

}  // namespace

COFFER_NOINLINE u32 find_callers(uptr* frames, u32 most) {
  const u32 count = os::call_stack(frames, most);
  uptr end = g_library_end.load(acquire);  // acquire: pairs with the release below
  if (end == 0) {
    uptr begin = 0;
    end = os::library_end(reinterpret_cast<uptr>(&find_callers), &begin);
    if (end == 0) end = 1;
    g_library_begin.store(begin, relaxed);  // relaxed: the release below publishes it
    g_library_end.store(end, release);      // release: pairs with the acquire above
  }
  const uptr begin = g_library_begin.load(relaxed);  // relaxed: written before the end that was seen
  u32 own = 0;
  while (own < count && frames[own] >= begin && frames[own] < end) ++own;
  if (own == count) own = 0;
  for (u32 i = own; i < count; ++i) frames[i - own] = frames[i];
  return count - own;
}

}  // namespace coffer
