// SPDX-License-Identifier: MIT
#include "papers/scalloc/arena.hpp"

#include "base/bits.hpp"
#include "os/os.hpp"
#include "papers/common/gauge.hpp"
#include "papers/scalloc/treiber_stack.hpp"

namespace coffer::scalloc {

namespace {

constexpr usize kFewestSpans = 4;
constexpr usize kWholeStep = usize{64} << 20;  // committed at a time where spans are not protected
// Where protection ends, a step begins.
static_assert((usize{kProtectedSpans} << 21) % kWholeStep == 0);

// Bytes of the arena that are held, and no longer only reserved; and back.
void count_held(usize bytes) {
  papers::totals().held.add(bytes);
  papers::totals().reserved.subtract(bytes);
}
void count_reserved(usize bytes) {
  papers::totals().held.subtract(bytes);
  papers::totals().reserved.add(bytes);
}

constexpr u32 kMostSpans = (1u << (kNumberBits - 1));
constexpr u32 kBits = 64;

// Two maps in one: so many bits, and from the next word on so many more, zero. nullptr: no memory.
void* make_map(usize spans, usize steps, usize* bytes) {
  const usize page = os::page_size();
  *bytes = round_up((divide_up(spans, kBits) + divide_up(steps, kBits)) * sizeof(u64), page);
  void* map = os::reserve(*bytes, page);
  if (map == nullptr || os::commit(map, *bytes)) return map;
  os::release(map, *bytes);
  return nullptr;
}

}  // namespace

bool Arena::start(const Parameters& parameters) {
  const usize span = usize{1} << ceil_log2(parameters.virtual_span);
  usize bytes = usize{1} << highest_bit(parameters.arena);
  if (bytes / span > kMostSpans) bytes = span * kMostSpans;
  // Options that contradict each other.
  if (bytes < kFewestSpans * span) bytes = kFewestSpans * span;
  // Alignment to the size takes twice that for a moment, which the part that limits leave to others can bear.
  const usize limit = os::reservation_limit(bytes);
  // A limit without room for a few spans: none, then, and every block has a mapping of its own (scalloc.cpp).
  if (limit < kFewestSpans * span) return true;
  while (bytes > limit) bytes /= 2;
  void* memory = nullptr;
  void* map = nullptr;
  usize map_bytes = 0;
  const usize step = span > kWholeStep ? span : kWholeStep;
  for (; bytes >= kFewestSpans * span; bytes /= 2) {
    memory = os::reserve(bytes, bytes);
    if (memory == nullptr) continue;
    map = make_map(bytes / span, divide_up(bytes, step), &map_bytes);
    if (map != nullptr) break;
    os::release(memory, bytes);
  }
  if (map == nullptr) return false;
  // Section 7: transparent huge pages interfere with on-demand paging, and are off but in one experiment.
  os::advise_huge_pages(memory, bytes, parameters.huge ? os::HugePages::allow : os::HugePages::forbid);
  os::name_mapping(memory, bytes, "scalloc arena");
  papers::totals().reserved.add(bytes);
  papers::totals().metadata.add(map_bytes);
  made_ = static_cast<Atomic<u64>*>(map);
  whole_ = made_ + divide_up(bytes / span, kBits);
  step_shift_ = highest_bit(step);
  span_mask_ = span - 1;
  span_shift_ = highest_bit(span);
  spans_ = static_cast<u32>(bytes / span);
  // A huge page is 2 MiB of memory in one mapping.
  protect_ = parameters.protect && !parameters.huge;
  base_ = reinterpret_cast<uptr>(memory);
  bytes_ = bytes;
  return true;
}

u32 Arena::take_number() {
  if (COFFER_UNLIKELY(returned_count_.get() != 0)) {
    LockGuard guard(returned_lock_);
    const u32 count = returned_count_.get();
    if (count != 0) {
      returned_count_.set(count - 1);
      return returned_[count - 1];
    }
  }
  u32 taken = next_.load(relaxed);  // relaxed, here and below: a number, nothing is published by it
  do {
    if (taken >= spans_) return 0;
  } while (!next_.compare_exchange(taken, taken + 1, relaxed, relaxed));
  return taken + 1;
}

// Where more threads than kMostReturned fail at a time, address space is lost, never memory.
void Arena::return_number(u32 number) {
  LockGuard guard(returned_lock_);
  const u32 count = returned_count_.get();
  if (count == kMostReturned) return;
  returned_[count] = number;
  returned_count_.set(count + 1);
}

usize Arena::whole_pages(usize bytes) const { return round_up(bytes, os::page_size()); }

// Makes [from, bytes) of a span readable and writable. The kernel counted the whole arena as address space when it was
// reserved, so of a limit that the program lowered since only this can know what is left.
bool Arena::commit(Span* span, usize from, usize bytes) {
  const usize more = bytes - from;
  const usize committed = committed_.load(relaxed);  // relaxed, both: threads that meet may pass the limit by a span
  if (!os::limit_allows(more, committed < bytes_ ? bytes_ - committed : 0)) return false;
  if (!os::commit(reinterpret_cast<void*>(span->base() + from), more)) return false;
  committed_.fetch_add(more, relaxed);
  return true;
}

void Arena::note_made(u32 number) {
  // release: pairs with the acquire in is_made.
  made_[(number - 1) / kBits].fetch_or(u64{1} << (number - 1) % kBits, release);
}

bool Arena::is_made(u32 number) const {
  // acquire: pairs with the release in note_made: the header can be read.
  return (made_[(number - 1) / kBits].load(acquire) >> (number - 1) % kBits & 1) != 0;
}

// Commits a virtual span from end to end: with the whole step that it lies in, or alone where that is refused. A bit
// says which steps are committed. (Not how far: of two threads that take the last span of a step and the first of the
// next, the second may come here first.) relaxed, both: the kernel is done when it returns, and who misses a bit
// commits once more, which is harmless.
bool Arena::commit_whole(u32 number) {
  const usize step = (usize{number - 1} << span_shift_) >> step_shift_;
  Atomic<u64>& word = whole_[step / kBits];
  const u64 bit = u64{1} << step % kBits;
  if ((word.load(relaxed) & bit) != 0) return true;
  const usize bytes = usize{1} << step_shift_;
  Span* first = reinterpret_cast<Span*>(base_ + (step << step_shift_));
  if (!commit(first, 0, bytes < bytes_ ? bytes : bytes_)) return commit(span(number), 0, virtual_span());
  word.fetch_or(bit, relaxed);
  return true;
}

Span* Arena::allocate_virtual_span(usize bytes) {
  const u32 number = take_number();
  if (number == 0) return nullptr;
  Span* fresh = span(number);
  const bool whole = !protect_ || number > kProtectedSpans;
  const usize committed = whole ? virtual_span() : whole_pages(bytes);
  if (!(whole ? commit_whole(number) : commit(fresh, 0, committed))) {
    return_number(number);
    return nullptr;
  }
  count_held(committed);
  fresh->committed.set(static_cast<u32>(committed));
  note_made(number);
  return fresh;
}

bool Arena::resize(Span* span, usize bytes) {
  const usize wanted = whole_pages(bytes);
  const usize now = span->committed.get();
  if (!protect_ || now == virtual_span()) return true;
  if (wanted > now) {
    if (!commit(span, now, wanted)) return false;
    count_held(wanted - now);
  } else if (wanted < now) {
    // It needs a mapping more if the kernel has none to give: then the rest stays as it is, purged but touchable.
    if (!os::decommit(reinterpret_cast<void*>(span->base() + wanted), now - wanted)) return true;
    count_reserved(now - wanted);
    committed_.fetch_sub(now - wanted, relaxed);  // relaxed: as in commit
  }
  span->committed.set(static_cast<u32>(wanted));
  return true;
}

bool Arena::madvise_span(Span* span) {
  const usize page = os::page_size();
  const usize bytes = whole_pages(real_span_bytes(span->real_span.get()));
  if (bytes <= page || !os::purge(reinterpret_cast<void*>(span->base() + page), bytes - page)) return false;
  span->purged.set(1);
  return true;
}

}  // namespace coffer::scalloc
