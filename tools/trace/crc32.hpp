// SPDX-License-Identifier: MIT
// CRC-32 as zlib computes it.
#pragma once

#include <array>
#include <cstddef>

#include "trace/format.hpp"

namespace coffer::trace {

// Goes on from `crc`, that of what came before (0 at first).
u32 crc32(u32 crc, const void* data, std::size_t length);
// The same without the processor's multiplication of polynomials: what tests compare it with.
u32 crc32_by_table(u32 crc, const void* data, std::size_t length);

}  // namespace coffer::trace
