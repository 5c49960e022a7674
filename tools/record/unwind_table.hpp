// SPDX-License-Identifier: MIT
// An object's unwind table (.eh_frame, with the index .eh_frame_hdr) as sorted rows, each for a run of instructions:
// how to come from a frame to its caller's. Of the callee's registers only the stack pointer and the frame pointer are
// followed: nearly all rules need no others. For x86-64.
#pragma once

#include "trace/format.hpp"

namespace coffer::record {

using trace::i64;
using trace::u16;
using trace::u32;
using trace::u64;
using trace::u8;

// What the table calls CFA: the stack pointer as it will be when the function has returned.
enum class Cfa : u8 {
  none,    // no rule, or one that is not understood: only the frame pointer may help
  end,     // the outermost function
  sp,      // sp + offset
  bp,      // bp + offset
  at_sp,   // what lies at sp + offset
  at_bp,   // what lies at bp + offset
  plt,     // sp + 8, and 8 more for instructions from the offset's on, of each sixteen bytes
  signal,  // the kernel called it: the registers lie at sp
};
enum class SavedBp : u8 { same, at_cfa, at_bp, lost };  // with bp_offset

struct Rule {
  std::int32_t offset = 0;
  std::int16_t bp_offset = 0;
  Cfa cfa = Cfa::none;
  SavedBp bp = SavedBp::same;

  bool operator==(const Rule&) const = default;
};
static_assert(sizeof(Rule) == 8);

// The rows; mapped memory of its own.
class UnwindTable {
 public:
  // From this instruction on the rule is another. Instructions come in order; what comes out of it is left out. false:
  // no memory.
  bool add(u32 start, const Rule& rule);
  Rule find(u32 at) const;
  u32 size() const { return count_; }
  u64 bytes() const { return u64{capacity_} * (sizeof(u32) + sizeof(Rule)); }
  void release();

 private:
  u32* starts_ = nullptr;
  Rule* rules_ = nullptr;
  u32 count_ = 0, capacity_ = 0;
};

// A copy of a process's memory.
struct Image {
  const u8* bytes = nullptr;
  u64 size = 0;
  u64 address = 0;  // where it came from
};

// What .eh_frame_hdr says: the entries (each two numbers of four bytes, relative to its address), and where the
// functions' descriptions begin and how far behind the last one's start the end may be.
struct FrameIndex {
  u32 count = 0;
  u64 entries = 0;  // offset in the image
  u64 first = 0, last = 0;
};
inline constexpr u64 kMostOfOne = 65536;  // bytes of one function's description
bool read_index(const Image& header, FrameIndex& index);

// Rows for the functions of the index; addresses are kept relative to `base`. false: no memory. What is malformed, or
// of a kind that no compiler makes, is left out.
bool read_frames(const Image& header, const FrameIndex& index, const Image& frames, u64 base, UnwindTable& table);

}  // namespace coffer::record
