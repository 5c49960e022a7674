// SPDX-License-Identifier: MIT
// Figures and invariants by a walk over all spans that were ever made.
#include "observe/statistics.hpp"
#include "os/os.hpp"
#include "papers/common/gauge.hpp"
#include "papers/scalloc/core.hpp"

namespace coffer::scalloc {

namespace {

// In the front end: of a size class, with blocks that may be in use.
bool in_front_end(State state) { return state == State::hot || state == State::floating || state == State::reusable; }

u32 live_blocks(const Span* span) {
  const u32 free = free_blocks(span);
  const u32 capacity = span->capacity.get();
  return free < capacity ? capacity - free : 0;  // a walk that meets a free or an allocation may count too many
}

// Number of blocks on a list, all in the span and where blocks start; more than there are blocks: it is broken.
u32 list_length(const Span* span, const Block* block) {
  const u32 broken = span->capacity.get() + 1;
  u32 count = 0;
  for (; block != nullptr && count < broken; block = block->next.get()) {
    const uptr address = reinterpret_cast<uptr>(block);
    if (address - span->base() >= kHeaderBytes + payload_bytes(span->size_class.get())) return broken;
    if (span->block_around(address) != block) return broken;
    ++count;
  }
  return count;
}

}  // namespace

template <class Fn>
void Core::for_each_span(Fn&& fn) const {
  const u32 taken = arena_.taken();
  for (u32 number = 1; number <= taken; ++number) {
    if (arena_.is_made(number)) fn(arena_.span(number));
  }
}

void Core::statistics(Statistics& statistics) const {
  const usize page = os::page_size();
  const papers::Totals& all = papers::totals();
  usize committed = 0;
  usize resident = 0;
  statistics.classes = kClasses;
  for (u32 c = 0; c < kClasses; ++c) statistics.by_class[c] = {c == 0 ? 0 : block_bytes(c), 0, 0, 0, 0};
  for_each_span([&](const Span* span) {
    committed += span->committed.get();
    const usize bytes = real_span_bytes(span->real_span.get());
    // What a span that is used has not touched yet counts as resident; the kernel knows better.
    resident += span->purged.get() != 0 ? page : bytes;
    if (!in_front_end(load_epoch(span).state())) return;
    ClassStatistics& entry = statistics.by_class[span->size_class.get()];
    ++entry.spans;
    entry.held += bytes;
    entry.live += usize{live_blocks(span)} * span->bytes.get();
    ++statistics.spans;
  });
  for (u32 c = 0; c < kClasses; ++c) statistics.live += statistics.by_class[c].live;
  statistics.live += all.mapped.now();
  statistics.resident = resident + all.mapped.now();
  statistics.chunks = arena_.taken();
  statistics.heaps = registry_.attached();
  statistics.heaps_ever = registry_.made();
  statistics.system_calls = os::call_count();
  statistics.page_tables = os::page_table_bytes();
}

// f of section 4: what is free in spans of the front end, and so of no use to other classes.
usize Core::fragmentation_by_walk() const {
  usize free = 0;
  for_each_span([&](const Span* span) {
    if (in_front_end(load_epoch(span).state())) {
      free += payload_bytes(span->size_class.get()) - usize{live_blocks(span)} * span->bytes.get();
    }
  });
  return free;
}

usize Core::check_lists(const Span* span, State state) const {
  usize wrong = 0;
  const u32 capacity = span->capacity.get();
  const u32 uncarved = capacity - span->carved.get();
  // relaxed, all: the caller sees to it that nobody else is inside.
  if (list_length(span, span->local_first.get()) + uncarved != span->local_count.load(relaxed)) ++wrong;
  const RemoteTop remote{span->remote.load(relaxed)};
  if (list_length(span, remote.first()) != remote.count()) ++wrong;
  const u32 free = free_blocks(span);
  if (free > capacity) ++wrong;
  // An empty span is free, or hot, or waits for the next allocation where that reclaims.
  if (free == capacity && state != State::hot && parameters_.reclaim == ReclaimPolicy::free) ++wrong;
  const Owner owner = span->owner.load(relaxed);
  const bool orphan = FrontEnd::is_orphan(owner);
  if (orphan && state != State::floating) ++wrong;
  if (!orphan && state == State::floating && free > span->reuse_above.get()) ++wrong;
  if (!orphan && state == State::hot && lab_of(owner)->hot[span->size_class.get()].get() != span) ++wrong;
  if (state == State::reusable) {
    bool found = false;
    const Span* other = lab_of(owner)->reusable[span->size_class.get()].first();
    for (; other != nullptr; other = other->older.get()) found |= other == span;
    if (!found) ++wrong;
  }
  return wrong;
}

usize Core::check_span(const Span* span) const {
  const State state = load_epoch(span).state();
  const u32 real_span = span->real_span.get();
  if (real_span >= kRealSpanSizes) return 1;
  if (in_front_end(state)) {
    const u32 size_class = span->size_class.get();
    if (size_class == 0 || size_class >= kClasses || real_span_index(size_class) != real_span) return 1;
    if (span->committed.get() < real_span_bytes(real_span)) return 1;
    return check_lists(span, state);
  }
  return state == State::free || state == State::expected ? 0 : 1;
}

usize Core::check() {
  usize wrong = 0;
  usize lost = 0;  // spans that are not where they belong: threads that a fork child does not have may be the reason
  usize free_spans = 0;
  for_each_span([&](const Span* span) {
    lost += check_span(span) != 0 ? 1 : 0;
    if (load_epoch(span).state() == State::free) ++free_spans;
  });
  // Every free span is on one stack. (One that was expected is taken from the arena and used at once.)
  usize pooled = 0;
  pool_.for_each([&](const Span* span) {
    const State state = load_epoch(span).state();
    if (state == State::free) ++pooled;
    if (in_front_end(state)) ++wrong;
  });
  if (pooled > free_spans) ++wrong;
  if (pooled < free_spans) lost += free_spans - pooled;
  const u32 most_lost = registry_.most_lost_spans();
  if (lost > most_lost) wrong += lost - most_lost;
  if (parameters_.account && most_lost == 0 && front_end_.fragmentation() != fragmentation_by_walk()) ++wrong;
  return wrong;
}

void Core::describe(Text& text) const {
  usize by_state[4] = {};
  for_each_span([&](const Span* span) {
    const State state = load_epoch(span).state();
    if (state != State::expected) ++by_state[lowest_bit(static_cast<u64>(state))];
  });
  const auto line = [&](const char* name, usize value) {
    const usize start = text.length();
    text.add(name).pad(start, 16).add(" = ").number(value, 12).add('\n');
  };
  line("hot spans", by_state[0]);
  line("floating spans", by_state[1]);
  line("reusable spans", by_state[2]);
  line("free spans", by_state[3]);
  line("virtual spans", arena_.taken());
  line("fragmentation", fragmentation_by_walk());
}

}  // namespace coffer::scalloc
