// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <csignal>

#include "os/os.hpp"
#include "papers/scalloc/ground.hpp"

namespace coffer::scalloc {

usize resident_pages(const void* from, usize bytes) {
  const usize page = os::page_size();
  std::vector<unsigned char> answer(bytes / page);
  EXPECT_EQ(mincore(const_cast<void*>(from), bytes, answer.data()), 0);
  usize count = 0;
  for (const unsigned char one : answer) count += one & 1;
  return count;
}

bool faults(void* address) {
  const int status = test::status_of([&] {
    std::signal(SIGSEGV, SIG_DFL);
    *static_cast<volatile char*>(address) = 1;
  });
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace coffer::scalloc
