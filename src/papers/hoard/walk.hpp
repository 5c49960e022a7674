// SPDX-License-Identifier: MIT
// Everything about all heaps at once: figures, checks, fork.
#pragma once

#include "base/text.hpp"
#include "observe/statistics.hpp"
#include "papers/common/gauge.hpp"

namespace coffer::papers::hoard {

void collect(Statistics& statistics);
void describe_heaps(Text& text);
// Number of violations.
usize check_heaps();

void lock_heaps_for_fork();
void unlock_heaps_after_fork();
// In a fork child: superblocks whose locks were held by threads that it does not have become free. Such a thread was
// waiting for a heap's lock, and had changed nothing.
void forget_superblock_locks();

// Bytes of blocks in use: U is its peak. Counted with peaks:true only.
Gauge& live_gauge();

}  // namespace coffer::papers::hoard
