// SPDX-License-Identifier: MIT
// How many frees of others' blocks a heap holds back, to push those of one span together (exchange/chains.hpp).
#pragma once

#include "base/base.hpp"

namespace coffer {

// Bytes of frees for one span that wait, about: 32 chains hold back 128 KiB at most. Chosen by that bound: with half,
// blocks of 64 bytes that another thread frees take 4.7 % more instructions, with twice 2.5 % fewer.
inline constexpr usize kMaxChainBytes = 4096;
// Power of two of the chains that a heap has open. Chosen by handover of 16 to 512 bytes with 8, 16, 32 and 64 chains:
// 99, 96, 64 and 57 ns; asymmetric 118, 112, 99, 91 (docs/design/speed-log.md). With 64 a heap may hold back 256 KiB.
inline constexpr u32 kChainsLog2 = 5;

}  // namespace coffer
