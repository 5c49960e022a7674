// SPDX-License-Identifier: MIT
#include "trial/blocks.hpp"

#include "span/span.hpp"
#include "support/check.hpp"
#include "support/pattern.hpp"
#include "trial/pulse.hpp"

namespace coffer::trial {

namespace {

// Of a large block what lies before it in its first slot counts, too.
usize counted_before(uptr address) {
  const SliceUse use = first_record(slice_record(arena_of(address), address))->use.load(relaxed);
  return use == SliceUse::large ? address % kSliceBytes : 0;
}

}  // namespace

void Blocks::enter(Held& held, void* at, usize size, usize usable, usize alignment) {
  // Looks at a record of the allocator, which is no step of the world.
  const bool was_on = g_pulse.on;
  g_pulse.on = false;
  const uptr start = reinterpret_cast<uptr>(at);
  ranges_.enter(at, size, usable, alignment);
  held.at = static_cast<unsigned char*>(at);
  held.size = size;
  held.usable = usable;
  held.alignment = alignment;
  held.seed = next_seed_++ * 0x9e3779b97f4a7c15u;
  held.counted = held.by_handle ? 0 : usable + counted_before(start);
  g_pulse.on = was_on;
  live_ += held.counted;
  test::fill_pattern(at, size, held.seed);
  g_pulse.hash = (g_pulse.hash ^ start ^ size) * 0x9e3779b97f4a7c15u;
}

void Blocks::leave(const Held& held) {
  ranges_.leave(held.at);
  live_ -= held.counted;
}

void Blocks::verify(const Held& held, usize kept, const char* when) {
  const usize damage = test::find_damage(held.at, held.size, kept, held.seed);
  REQUIRE(damage == test::kPatternGood, "%s: block %p of %zu bytes is damaged at offset %zu", when,
          static_cast<void*>(held.at), held.size, damage);
}

}  // namespace coffer::trial
