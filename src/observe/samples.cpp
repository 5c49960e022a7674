// SPDX-License-Identifier: MIT
#include "observe/samples.hpp"

#include "observe/sampling.hpp"

namespace coffer {

namespace {

constexpr u32 kFirstLives = 4096;
constexpr usize kUnit = 64 * 1024;
// Deviations that chance does not explain. Tried with ten programs at three rates: 1 MiB whose blocks are replaced is
// taken for 1.28, 1.12, 1.09, 1.12 at 16K with 2, 3, 4, 6; rises and falls to the same height
// for 1.09, 1.09, 1.07, 1.13.
constexpr double kSure = 4;

void* map(usize bytes) {
  bytes = (bytes + kUnit - 1) / kUnit * kUnit;
  void* memory = os::reserve(bytes, kUnit);
  if (memory == nullptr) return nullptr;
  if (os::commit(memory, bytes)) {
    os::name_mapping(memory, bytes, "coffer profile");
    return memory;
  }
  os::release(memory, bytes);
  return nullptr;
}

// What a sampled block adds to the variance of the sum: it has the weight 1 / p, and the variance (1 - p) / p.
double variance_of(usize bytes, double weight) {
  const double one = static_cast<double>(bytes);
  return one * one * weight * (weight - 1);
}

void unmap(void* memory, usize bytes) { os::release(memory, (bytes + kUnit - 1) / kUnit * kUnit); }

}  // namespace

bool Samples::make_table() {
  if (table_ == nullptr) table_ = static_cast<Table*>(map(sizeof(Table)));
  return table_ != nullptr;
}

// 1 + the address's index; 0: there is no room.
u32 Samples::find_address(uptr address) {
  constexpr u32 kMask = 2 * kAddresses - 1;
  for (u64 at = mix_bits(0, address);; ++at) {
    u32& slice = table_->address_at[at & kMask];
    if (slice == 0) {
      if (addresses_ == kAddresses) return 0;
      table_->addresses[addresses_++] = address;
      slice = addresses_;
      return slice;
    }
    if (table_->addresses[slice - 1] == address) return slice;
  }
}

// The index of the stack. Where there is no room for another one, that of a stack without frames, which is the first.
u32 Samples::find_stack(const CallStack& stack) {
  constexpr u32 kMask = 2 * kStacks - 1;
  if (stacks_ == 0) stacks_ = 1;
  u64 hash = 1;
  for (u32 i = 0; i < stack.count; ++i) hash = mix_bits(hash, stack.frames[i]);
  for (u64 at = hash;; ++at) {
    u32& slice = table_->stack_at[at & kMask];
    if (slice == 0) {
      if (stack.count == 0 || stacks_ == kStacks || kFrames - frames_ < stack.count) return 0;
      Stack& made = table_->stacks[stacks_];
      made.first = frames_;
      for (u32 i = 0; i < stack.count; ++i) {
        const u32 address = find_address(stack.frames[i]);
        if (address == 0) return 0;
        table_->frames[made.first + i] = address - 1;
      }
      made.hash = hash;
      made.count = stack.count;
      frames_ += stack.count;
      ++stacks_;
      slice = stacks_;
      return stacks_ - 1;
    }
    // Two stacks of one hash of 64 bits are taken for one.
    if (table_->stacks[slice - 1].hash == hash) return slice - 1;
  }
}

u64 Samples::home(uptr block) const { return mix_bits(0, block) & (capacity_ - 1); }

void Samples::put_live(const Live& one) {
  u64 at = home(one.block);
  while (lives_[at].block != 0) at = (at + 1) & (capacity_ - 1);
  lives_[at] = one;
}

bool Samples::grow_live() {
  if (lives_ != nullptr && live_ < capacity_ / 2) return true;
  Live* before = lives_;
  const u32 count = capacity_;
  const u32 wanted = count == 0 ? kFirstLives : 2 * count;
  Live* made = wanted != 0 ? static_cast<Live*>(map(wanted * sizeof(Live))) : nullptr;
  if (made == nullptr) return live_ + 1 < capacity_;
  lives_ = made;
  capacity_ = wanted;
  for (u32 i = 0; i < count; ++i) {
    if (before[i].block != 0) put_live(before[i]);
  }
  if (before != nullptr) unmap(before, count * sizeof(Live));
  return true;
}

void Samples::save_peak(Stack& stack) {
  if (stack.saved_at == peaks_) return;
  stack.saved = stack.live();
  stack.saved_at = peaks_;
}

bool Samples::is_highest(usize held) const {
  const double more = live_bytes_ - peak_bytes_;
  return more > 0 && (held > peak_held_ || more * more > kSure * kSure * (variance_ + peak_variance_));
}

bool Samples::add(const void* block, usize bytes, double weight, const CallStack& stack, usize held) {
  if (!make_table() || !grow_live()) {
    ++dropped_;
    return false;
  }
  const u32 index = find_stack(stack);
  const double weighed = weight * static_cast<double>(bytes);
  live_bytes_ += weighed;
  variance_ += variance_of(bytes, weight);
  if (is_highest(held)) {
    peak_bytes_ = live_bytes_;
    peak_variance_ = variance_;
    peak_held_ = held;
    peak_ns_ = os::monotonic_ns();
    ++peaks_;
  } else {
    save_peak(table_->stacks[index]);
  }
  StackSums& sums = table_->stacks[index].sums;
  sums.allocated_blocks += weight;
  sums.allocated_bytes += weighed;
  put_live({reinterpret_cast<uptr>(block), index, 0, bytes, weight});
  ++live_;
  return true;
}

bool Samples::remove(const void* block, double* weight) {
  if (live_ == 0) return false;
  const u32 mask = capacity_ - 1;
  u64 at = home(reinterpret_cast<uptr>(block));
  for (; lives_[at].block != reinterpret_cast<uptr>(block); at = (at + 1) & mask) {
    if (lives_[at].block == 0) return false;
  }
  Stack& stack = table_->stacks[lives_[at].stack];
  save_peak(stack);
  const double weighed = lives_[at].weight * static_cast<double>(lives_[at].bytes);
  live_bytes_ -= weighed;
  variance_ -= variance_of(lives_[at].bytes, lives_[at].weight);
  stack.sums.freed_blocks += lives_[at].weight;
  stack.sums.freed_bytes += weighed;
  if (weight != nullptr) *weight = lives_[at].weight;
  --live_;
  // What comes behind moves up, unless it is at home there, so that no search ends early.
  for (u64 next = (at + 1) & mask; lives_[next].block != 0; next = (next + 1) & mask) {
    if (((next - home(lives_[next].block)) & mask) < ((next - at) & mask)) continue;
    lives_[at] = lives_[next];
    at = next;
  }
  lives_[at].block = 0;
  return true;
}

void Samples::forget() {
  table_ = nullptr;
  stacks_ = addresses_ = frames_ = 0;
  lives_ = nullptr;
  capacity_ = live_ = 0;
  dropped_ = 0;
  live_bytes_ = variance_ = peak_bytes_ = peak_variance_ = 0;
  peak_held_ = 0;
  peaks_ = peak_ns_ = 0;
}

const StackSums& Samples::sums(u32 stack) const { return table_->stacks[stack].sums; }

LiveSums Samples::at_peak(u32 stack) const {
  const Stack& one = table_->stacks[stack];
  if (is_above_peak()) return one.live();
  return one.saved_at == peaks_ ? one.saved : one.live();
}

uptr Samples::address(u32 index) const { return table_->addresses[index]; }

}  // namespace coffer
