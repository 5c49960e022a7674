// SPDX-License-Identifier: MIT
// What the process's page tables take, as the kernel counts it.
#include "os/linux/reader.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

// From a line "VmPTE:  123 kB".
usize page_table_bytes() {
  if (os::filter_came()) return 0;
  const KeepErrno keep;
  Reader reader("/proc/self/status");
  constexpr char kName[] = "VmPTE:";
  usize number = 0, seen = 0;
  bool matches = true;
  for (int character = reader.next(); character != Reader::kEnd; character = reader.next()) {
    if (character == '\n') {
      seen = 0;
      matches = true;
    } else if (matches && kName[seen] != 0) {
      matches = character == kName[seen++];
    } else if (matches && character >= '0' && character <= '9') {
      number = number * 10 + static_cast<usize>(character - '0');
    }
  }
  return number * 1024;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
