// SPDX-License-Identifier: MIT
#include "property/generator.hpp"

#include "support/sizes.hpp"

namespace coffer::test {

namespace {

// A sequence stays below this, so that it runs on small machines and its pages stay warm.
constexpr std::uint64_t kMostBytes = 96 * kMiB;

}  // namespace

Generator::Generator(std::uint64_t seed, std::uint64_t check_every)
    : random_(seed), check_every_(check_every), held_(kSlots) {
  start_phase();
}

void Generator::start_phase() {
  const std::uint64_t dice = random_.below(100);
  Sizes sizes = Sizes::mixed;
  if (dice >= 50) sizes = Sizes::one_class;
  if (dice >= 65) sizes = Sizes::two_classes;
  if (dice >= 75) sizes = Sizes::borders;
  if (dice >= 85) sizes = Sizes::tiny;
  if (dice >= 92) sizes = Sizes::multi_slot;
  if (dice >= 97) sizes = Sizes::slot_runs;
  if (dice >= 99) sizes = Sizes::chunks;
  const bool large = sizes == Sizes::slot_runs || sizes == Sizes::chunks;
  phase_.sizes = sizes;
  phase_.order = static_cast<Order>(random_.below(3));
  phase_.count = static_cast<std::uint32_t>(random_.by_magnitude(4, large ? 128 : kSlots));
  phase_.first = static_cast<std::uint32_t>(random_.below(kSlots - phase_.count + 1));
  for (std::uint64_t& size : phase_.class_size) size = border_size(random_);
  static constexpr std::uint32_t kMoods[][2] = {{90, 10}, {50, 50}, {80, 80}, {10, 90}, {0, 100}, {100, 30}};
  const auto& mood = kMoods[random_.below(std::size(kMoods))];
  phase_.allocate_percent = mood[0];
  phase_.free_percent = mood[1];
  // Long enough to walk all slots a few times; phases of large blocks are short, since touching them costs most.
  phase_.left = random_.by_magnitude(100, 2000) + (large ? 0 : random_.below(4 * phase_.count));
  phase_.cursor = 0;
}

std::uint64_t Generator::pick_size() {
  switch (phase_.sizes) {
    case Sizes::mixed:
      return mixed_size(random_);
    case Sizes::one_class:
      return phase_.class_size[0];
    case Sizes::two_classes:
      return phase_.class_size[random_.below(2)];
    case Sizes::borders:
      return border_size(random_);
    case Sizes::tiny:
      return random_.below(65);
    case Sizes::multi_slot:
      return random_.between(4 * kKiB, 32 * kKiB + 1);
    case Sizes::slot_runs:
      return slice_run_size(random_);
    case Sizes::chunks:
      return chunk_size(random_);
  }
  return 0;
}

std::uint32_t Generator::pick_slot() {
  const std::uint32_t step = phase_.cursor++ % phase_.count;
  switch (phase_.order) {
    case Order::upward:
      return phase_.first + step;
    case Order::downward:
      return phase_.first + phase_.count - 1 - step;
    case Order::random:
      break;
  }
  return phase_.first + static_cast<std::uint32_t>(random_.below(phase_.count));
}

void Generator::put(std::uint32_t slot, std::uint64_t size) {
  held_[slot] = {true, size};
  held_bytes_ += size;
}

void Generator::take(std::uint32_t slot) {
  held_bytes_ -= held_[slot].size;
  held_[slot] = {};
}

Operation Generator::for_empty(std::uint32_t slot) {
  Operation operation{Kind::malloc, 4, slot, pick_size()};
  const std::uint64_t dice = random_.below(100);
  if (dice >= 60) operation.kind = Kind::calloc;
  if (dice >= 78) operation.kind = Kind::realloc_null;
  if (dice >= 85) operation.kind = Kind::aligned_alloc;
  if (dice >= 90) operation.kind = Kind::posix_memalign;
  if (dice >= 95) operation.kind = Kind::memalign;
  if (dice >= 98) operation.kind = Kind::valloc;
  if (dice >= 99) operation.kind = Kind::pvalloc;
  if (dice >= 85 && dice < 98) {
    operation.alignment_log2 = static_cast<std::uint8_t>(__builtin_ctzll(alignment(random_)));
  }
  put(slot, operation.size);
  return operation;
}

Operation Generator::for_full(std::uint32_t slot) {
  Operation operation{Kind::free, 0, slot, 0};
  if (held_bytes_ > kMostBytes || random_.below(100) < phase_.free_percent) {
    const std::uint64_t dice = random_.below(10);
    if (dice == 8) operation.kind = Kind::free_sized;
    if (dice == 9) operation.kind = Kind::free_aligned_sized;
    take(slot);
    return operation;
  }
  const std::uint64_t dice = random_.below(100);
  if (dice >= 50) {
    operation.kind = dice >= 75 ? Kind::use_all : Kind::verify;
    return operation;
  }
  operation.kind = Kind::realloc;
  const std::uint64_t old = held_[slot].size;
  operation.size = 1 + pick_size();
  // Growth and shrinking by little, as a program's buffers do it.
  if (dice < 15 && old < 8 * kMiB) operation.size = 1 + old + random_.below(old + 1);
  if (dice >= 15 && dice < 25) operation.size = 1 + old - random_.below(old + 1);
  take(slot);
  put(slot, operation.size);
  return operation;
}

Operation Generator::next() {
  if (++made_ % check_every_ == 0) return {Kind::check, 0, 0, 0};
  if (phase_.left-- == 0) start_phase();
  const std::uint64_t dice = random_.below(200'000);
  if (dice == 0) return {Kind::trim, 0, 0, 0};
  if (dice < 20) return {Kind::stats, 0, 0, 0};
  if (dice < 40) return {Kind::refused, 0, 0, 0};
  if (dice < 60) return {Kind::free_null, 0, 0, 0};
  // A slot that the phase would rather leave alone is passed over: the next one then.
  for (int tries = 0; tries < 16; ++tries) {
    const std::uint32_t slot = pick_slot();
    if (held_[slot].full) return for_full(slot);
    if (held_bytes_ <= kMostBytes && random_.below(100) < phase_.allocate_percent) return for_empty(slot);
  }
  phase_.left = 0;
  return {Kind::free_null, 0, 0, 0};
}

}  // namespace coffer::test
