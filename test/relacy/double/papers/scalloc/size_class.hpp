// SPDX-License-Identifier: MIT
// papers/scalloc/size_class.hpp for Relacy: one class, spans of three blocks, headers as large as simulated cells make
// them.
#pragma once

#include "base/base.hpp"
#include "base/bits.hpp"

namespace coffer::scalloc {

inline constexpr u32 kClasses = 2;
inline constexpr usize kHeaderBytes = 16 * 1024;
constexpr usize block_bytes(u32) { return 4096; }
constexpr u32 blocks_of(u32) { return 3; }
constexpr usize payload_bytes(u32) { return blocks_of(1) * 4096; }
constexpr u32 real_span_index(u32) { return 0; }
constexpr usize real_span_bytes(u32) { return kHeaderBytes + payload_bytes(1); }

}  // namespace coffer::scalloc
