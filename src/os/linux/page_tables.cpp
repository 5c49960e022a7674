// SPDX-License-Identifier: MIT
// What the process's page tables take, as the kernel counts it.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "os/linux/calls.hpp"
#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

// Finds the number in a line "NAME  123 kB" of a text that comes character by character.
class LineNumber {
 public:
  explicit LineNumber(const char* name) : name_(name) {}
  void take(char character) {
    if (character == '\n') {
      seen_ = 0;
      matches_ = true;
    } else if (matches_ && name_[seen_] != 0) {
      matches_ = character == name_[seen_++];
    } else if (matches_ && character >= '0' && character <= '9') {
      number_ = number_ * 10 + static_cast<usize>(character - '0');
    }
  }
  usize number() const { return number_; }

 private:
  const char* name_;
  usize seen_ = 0;
  bool matches_ = true;
  usize number_ = 0;
};

}  // namespace

usize page_table_bytes() {
  if (os::filter_came()) return 0;
  const int saved = errno;
  LineNumber tables("VmPTE:");
  const int file = calls::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    char text[256];  // small: the caller may have the smallest stack there is
    for (;;) {
      const ssize_t got = calls::read(file, text, sizeof text);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      for (ssize_t i = 0; i < got; ++i) tables.take(text[i]);
    }
    calls::close(file);
  }
  errno = saved;
  return tables.number() * 1024;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
