// SPDX-License-Identifier: MIT
#include "hardened/report.hpp"

#include "exchange/bad_pointer.hpp"
#include "exchange/freed.hpp"
#include "harden/report.hpp"
#include "hardened/canary.hpp"
#include "hardened/rest.hpp"
#include "span/span.hpp"

namespace coffer::hardened {

namespace {

// Not live: whether it was freed, or never handed out. Otherwise its canary was written over.
bool is_free(const void* block, usize have) {
  if (have % kQuantum != 0) return false;  // a live sample
  if (trailer_of(block, have) != 0) return false;
  if (is_untouched(block, have, sizeof(Block)) && is_signed(static_cast<const Block*>(block))) return true;
  // Zero, or written to since: it rests, in all likelihood in the quarantine of this thread.
  if (is_untouched(block, have, 0) || rests_here(block)) return true;
  Arena* const arena = arena_of(reinterpret_cast<uptr>(block));
  const Span* const span =
      arena != nullptr ? first_record(slice_record(arena, reinterpret_cast<uptr>(block))) : nullptr;
  // relaxed: last words.
  return span != nullptr && span->use.load(relaxed) == SliceUse::span && may_be_free(block) && is_freed(span, block);
}

}  // namespace

void report_touched(const void* block, usize have) { harden::broken_link(block, have); }

void report_freed(const char* call, const void* block, usize have) {
  harden::bad_pointer(call, block, harden::BadPointer::already_free, have);
}

void report_broken(const char* call, void* block, usize have) {
  const bool free = is_free(block, have);
  harden::bad_pointer(call, block, free ? harden::BadPointer::already_free : harden::BadPointer::overrun, have);
}

}  // namespace coffer::hardened
