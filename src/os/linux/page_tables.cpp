// SPDX-License-Identifier: MIT
// What the process's page tables take, as the kernel counts it.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

// The number that follows `name` in a text of lines "Name:\t  123 kB".
usize number_after(const char* text, usize length, const char* name) {
  for (usize i = 0; i < length; ++i) {
    if (i != 0 && text[i - 1] != '\n') continue;
    usize k = 0;
    while (name[k] != 0 && i + k < length && text[i + k] == name[k]) ++k;
    if (name[k] != 0) continue;
    usize number = 0;
    for (usize at = i + k; at < length && text[at] != '\n'; ++at) {
      if (text[at] >= '0' && text[at] <= '9') number = number * 10 + static_cast<usize>(text[at] - '0');
    }
    return number;
  }
  return 0;
}

}  // namespace

usize page_table_bytes() {
  const int saved = errno;
  char text[4096];
  usize length = 0;
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    for (;;) {
      const ssize_t got = read(file, text + length, sizeof text - length);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      length += static_cast<usize>(got);
    }
    close(file);
  }
  errno = saved;
  return number_after(text, length, "VmPTE:") * 1024;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
