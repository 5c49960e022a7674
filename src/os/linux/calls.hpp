// SPDX-License-Identifier: MIT
// System calls on files as the kernel has them. The C library's functions of the same names are points of cancellation:
// a thread that was cancelled would leave malloc or free in the middle of them, with what it has in hand.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

// No function of the contract changes errno.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_;
};

bool block_signals(u64* before);
void restore_signals(u64 before);

namespace calls {

inline int open(const char* path, int flags, mode_t mode = 0) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
inline ssize_t read(int file, void* to, usize length) { return syscall(SYS_read, file, to, length); }
inline ssize_t write(int file, const void* from, usize length) { return syscall(SYS_write, file, from, length); }
inline int close(int file) { return static_cast<int>(syscall(SYS_close, file)); }
inline int allocate(int file, usize length) {
  return static_cast<int>(syscall(SYS_fallocate, file, 0, u64{0}, length));
}
inline ssize_t random(void* to, usize length, unsigned flags) { return syscall(SYS_getrandom, to, length, flags); }

}  // namespace calls

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
