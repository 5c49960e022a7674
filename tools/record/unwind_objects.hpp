// SPDX-License-Identifier: MIT
// The unwind tables of objects. They are never given up, so that whoever still has one may read on; an object that is
// loaded again finds its own by a hash of its index.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/unwind_table.hpp"

namespace coffer::record {

// Memory of this process, which may vanish while it is read.
class Memory {
 public:
  Memory() : file_(syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}
  ~Memory() {
    if (file_ >= 0) syscall(SYS_close, file_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // How much could be read.
  u64 read(u64 address, void* into, u64 bytes) const {
    u64 done = 0;
    while (done < bytes) {
      const long got = syscall(SYS_pread64, file_, static_cast<char*>(into) + done, bytes - done, address + done);
      if (got <= 0) break;
      done += static_cast<u64>(got);
    }
    return done;
  }

 private:
  long file_;
};

// It lies in zeroed memory that no constructor ran over.
class Tables {
 public:
  // The table of the object that begins here: 1 + its index, or 0: there is none. One thread at a time.
  u32 load(const Memory& memory, u64 base);
  // Any thread, for a table that it was told of after it was loaded.
  Rule find(u32 table, u32 offset) const {
    return table != 0 && table <= kMost ? known_[table - 1].table.find(offset) : Rule{};
  }

 private:
  static constexpr u32 kMost = 2048;
  struct Known {
    u64 hash;
    u64 bytes;
    UnwindTable table;
  };

  Known known_[kMost];
  u32 count_;
};

}  // namespace coffer::record
