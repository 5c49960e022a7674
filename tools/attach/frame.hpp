// SPDX-License-Identifier: MIT
// The frame from which the kernel restores a thread that leaves a signal handler (rt_sigreturn), as it makes one on
// x86-64 itself.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <vector>

namespace coffer::attach {

// Where a frame of at most `room` bytes begins below `end`. Aligned as the stack is when a function begins.
constexpr std::uint64_t frame_at(std::uint64_t end, std::uint64_t room) {
  return ((end - room) & ~std::uint64_t{63}) + 64 - sizeof(std::uint64_t);
}

// Registers with which a thread begins its system call again if it was interrupted in one that may be.
user_regs_struct as_if_interrupted(const user_regs_struct& stopped);

// The bytes from `at` on, of which the first eight are `leave`. `extended`: as PTRACE_GETREGSET has NT_X86_XSTATE.
std::vector<char> signal_frame(std::uint64_t at, std::uint64_t leave, const user_regs_struct& registers,
                               std::uint64_t mask, const std::vector<char>& extended);

}  // namespace coffer::attach
