// SPDX-License-Identifier: MIT
// The arena (section 3.2): one reservation of 2^45 bytes, or of the largest smaller power of two that the process may
// have, cut into virtual spans by a bump pointer. It starts at a multiple of its size, so that one xor and one compare
// tell its addresses from others (section 5, large objects).
//
// A virtual span that was taken has its real span committed, and nothing behind it: touching that faults. One mapping
// becomes two for each span, and the kernel allows a process 65,530; past kProtectedSpans the arena is committed whole,
// in steps, and the rest of a virtual span is memory that nobody should touch. (The paper protects every span and has
// its limit at about a gigabyte of small blocks, or the sysctl raised.)
#pragma once

#include "config/table.hpp"
#include "os/spin_lock.hpp"
#include "papers/scalloc/span.hpp"

namespace coffer::scalloc {

// What can be chosen; the tests make their own.
using Parameters = config::Options;
using config::LabPolicy;
using config::ReclaimPolicy;

inline constexpr u32 kProtectedSpans = 24 * 1024;

class Arena {
 public:
  // Reserves. false: the kernel has no memory even for a few spans. Where a limit of the process has no room for them
  // the arena stays empty.
  bool start(const Parameters& parameters);

  // True for addresses in the arena.
  COFFER_INLINE bool contains(uptr address) const { return (address ^ base_) < bytes_; }
  COFFER_INLINE Span* span_around(uptr address) const { return reinterpret_cast<Span*>(address & ~span_mask_); }

  // Spans are numbered from 1 on.
  Span* span(u32 number) const { return reinterpret_cast<Span*>(base_ + (u64{number - 1} << span_shift_)); }
  u32 number(const Span* span) const { return static_cast<u32>((span->base() - base_) >> span_shift_) + 1; }
  Atomic<u32>& link(u32 number) const { return span(number)->link; }

  // A virtual span that nobody ever had, with `bytes` of it committed. nullptr: no address space, or no memory.
  Span* allocate_virtual_span(usize bytes);

  // Sets how much of a span can be touched. false: no memory for more; nothing changed.
  bool resize(Span* span, usize bytes);

  // Gives the pages of a span back, all but the first.
  bool madvise_span(Span* span);

  // Virtual spans taken so far; those that could not be committed are not is_made.
  u32 taken() const { return next_.load(relaxed); }  // relaxed: for walks, which may miss the newest
  bool is_made(u32 number) const;
  usize bytes() const { return bytes_; }
  usize base() const { return base_; }
  usize virtual_span() const { return span_mask_ + 1; }
  SpinLock& fork_lock() { return returned_lock_; }

 private:
  static constexpr u32 kMostReturned = 64;

  u32 take_number();
  void return_number(u32 number);
  bool commit(Span* span, usize from, usize bytes);
  bool commit_whole(u32 number);
  void note_made(u32 number);
  usize whole_pages(usize bytes) const;

  uptr base_ = 1;  // 1 and no bytes: contains nothing
  usize bytes_ = 0;
  uptr span_mask_ = 0;
  u32 span_shift_ = 0;
  u32 spans_ = 0;  // virtual spans in the arena
  bool protect_ = false;
  u32 step_shift_ = 0;
  Atomic<u64>* made_ = nullptr;   // a bit a span: its header can be read
  Atomic<u64>* whole_ = nullptr;  // a bit a step of spans that are not protected: all of it is committed
  Atomic<u32> next_;              // the bump pointer: virtual spans taken
  Atomic<usize> committed_;       // bytes of the arena, about: spans committed twice count twice
  SpinLock returned_lock_;
  Owned<u32> returned_count_;
  u32 returned_[kMostReturned] = {};  // numbers that could not be committed, to be tried again
};

}  // namespace coffer::scalloc
