// SPDX-License-Identifier: MIT
// How many frees of others' blocks a heap holds back, to push those of one span together (exchange/chains.hpp).
#pragma once

#include "base/base.hpp"

namespace coffer {

// Frees for one span that wait at most. Chosen by the instructions of blocks freed by another thread: with 8 10 % more,
// with 32 5 % fewer, for twice as many blocks that nobody else has.
inline constexpr u32 kMaxChain = 16;
// Bytes that wait on a chain, about: 32 chains hold back 128 KiB at most. Chosen by that bound; of blocks up to 256
// bytes kMaxChain is the limit.
inline constexpr usize kMaxChainBytes = 4096;
// Power of two of the chains that a heap has open. Chosen by handover of 16 to 512 bytes with 8, 16, 32 and 64 chains:
// 99, 96, 64 and 57 ns; asymmetric 118, 112, 99, 91 (docs/design/speed-log.md). With 64 a heap may hold back 256 KiB.
inline constexpr u32 kChainsLog2 = 5;

}  // namespace coffer
