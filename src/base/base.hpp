// SPDX-License-Identifier: MIT
// Words every other file uses: integer types, branch hints, the assertion.
#pragma once

#include <cstddef>
#include <cstdint>

#define COFFER_LIKELY(x) __builtin_expect(!!(x), 1)
#define COFFER_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COFFER_INLINE inline __attribute__((always_inline))
#define COFFER_NOINLINE __attribute__((noinline))
#define COFFER_COLD __attribute__((noinline, cold))

namespace coffer {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using usize = std::size_t;
using uptr = std::uintptr_t;

static_assert(sizeof(void*) == 8, "Coffer needs 64-bit pointers");

// Writes "coffer: FILE:LINE: what" to stderr and aborts; allocates nothing. Defined in os/linux, declared here so that
// the lowest layer can assert.
[[noreturn]] COFFER_COLD void assertion_failed(const char* file, int line, const char* what);

}  // namespace coffer

// COFFER_ASSERT stays in release builds: for slow paths only. COFFER_DEBUG_ASSERT is for fast paths.
#define COFFER_ASSERT(x) (COFFER_LIKELY(x) ? (void)0 : ::coffer::assertion_failed(__FILE__, __LINE__, #x))
#ifdef COFFER_DEBUG
#define COFFER_DEBUG_ASSERT(x) COFFER_ASSERT(x)
#else
#define COFFER_DEBUG_ASSERT(x) ((void)0)
#endif
