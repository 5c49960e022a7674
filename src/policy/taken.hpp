// SPDX-License-Identifier: MIT
// What is taken when memory is wanted: which free memory first, how far one looks for it, and how much at a time.
#pragma once

#include "size_class/placement.hpp"

namespace coffer {

// Chunks that one search looks at for a resident run of slices. One that is found saves more page faults than all these
// looks cost. Chosen by page faults of two threads with 64 blocks of 256 KB to 1 MB, which are thirteen times as many
// where only runs that are resident whole are taken; with a quarter no row differs.
inline constexpr u32 kDirtyLooks = 64;
// Chunks that a request for whole chunks looks at for a range of which much is resident. A page fault costs as much as
// a hundred looks. Chosen by the sweep: with half and with twice no row differs.
inline constexpr u32 kRangeLooks = 1024;
// Chunks of room, at most, that a block gets when it moves to grow. Chosen by the sweep: with half and with twice no
// row differs.
inline constexpr u32 kMostRoom = 64;
// Part, 1/4, of what is held: so much may be in huge pages that nobody uses yet, which is a chunk for each shard.
// Chosen by page faults and peaks (docs/design/speed-log.md): with half `python3` takes 5 % more memory, and objects of
// 4 to 16 KiB have a fifth fewer page faults; with twice shbench takes 2 % more memory.
inline constexpr usize kHugeUnusedShare = 4;
// Bytes of large blocks that get huge pages before it is known what the program touches of such blocks. Chosen by z3,
// whose two blocks of 8 MiB get them with half and with twice, too, and by 500 blocks of 4 MiB of which only the ends
// are touched: 22 MB, with half 14, with twice 38.
inline constexpr usize kHugeTrust = usize{32} << 20;
// Bytes. While a heap holds less, its spans begin at other cache indices than those of others; then the order of
// addresses is worth more. Chosen by 150 MB of 224-byte blocks, which took half as long again to read in the order in
// which they were allocated when each span began in its midst.
inline constexpr usize kFewSpans = usize{2} << 20;
// Blocks that are carved at once, of a span of which a page is carved already: page by page, a class of large blocks
// would come to the slow path for each one or two. Chosen by the sweep: with half and with twice no row differs.
inline constexpr u32 kCarvedBlocks = 8;
// Bytes that these take at most. Chosen by the sweep: with half and with twice no row differs.
inline constexpr u32 kCarvedBytes = 64 * 1024;
constexpr u32 most_carved_at_once(u32 block_bytes) {
  const u32 blocks = kCarvedBytes / block_bytes;
  return blocks < 1 ? 1 : blocks < kCarvedBlocks ? blocks : kCarvedBlocks;
}

// Blocks that are carved at once of a span that is carved again (span/order.hpp): its absent pages are resident. Chosen
// by batches that are freed at random, ns a pair with 8, 32, 64: 9.8, 8.7, 8.1 of 256 bytes, 15.4, 11.8, 11.1 of 1 KiB.
// (Where slices merely may be resident, 64 held 6 % more in a ring of 16 threads.)
inline constexpr u32 kCarvedResident = 64;

// Part, 1/2, of the writable chunks that become writable together: what is ahead of its use is locked, too, if the
// program asks for locked memory later. Chosen by the sweep: with half and with twice no row differs.
inline constexpr usize kCommitShare = 2;
// Chunks with a mapping of their own that may wait for their next use; the kernel allows 65,530 mappings. Chosen by the
// sweep: with half and with twice no row differs.
inline constexpr u32 kMostMoved = 1024;

static_assert(most_carved_at_once(16) == 8 && most_carved_at_once(8192) == 8 && most_carved_at_once(32768) == 2);

}  // namespace coffer
