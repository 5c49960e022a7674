// SPDX-License-Identifier: MIT
// The barrier on all processors, against the contract in os/os.hpp.
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "base/atomic.hpp"
#include "fresh.hpp"
#include "os/os.hpp"

namespace coffer {
namespace {

constexpr int kMark = 4242;  // a value of errno that no call sets

// Whether the kernel itself says that it has one; 16 is its bit of the command, private and expedited.
bool kernel_has_barrier() {
  const long commands = syscall(SYS_membarrier, 0, 0, 0);
  return commands > 0 && (commands & 8) != 0 && (commands & 16) != 0;
}

// From now on the kernel refuses the barrier with this error, as a container's filter may.
void refuse_barriers(unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof program / sizeof *program, program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

FRESH_TEST(Barrier, IsOfferedIfTheKernelHasOne) {
  EXPECT_FALSE(os::has_barrier()) << "nobody asked for it yet";
  errno = kMark;
  os::prepare_barrier();
  EXPECT_EQ(os::has_barrier(), kernel_has_barrier());
  errno = kMark;
  EXPECT_EQ(os::barrier_everywhere(), os::has_barrier());
  EXPECT_EQ(errno, kMark);
}

FRESH_TEST(Barrier, WorksInAForkChild) {
  os::prepare_barrier();
  test::run_fresh([] {
    errno = kMark;
    EXPECT_EQ(os::barrier_everywhere(), os::has_barrier());
    EXPECT_EQ(errno, kMark);
  });
}

FRESH_TEST(Barrier, IsNotOfferedWhereItIsRefused) {
  refuse_barriers(ENOSYS);
  errno = kMark;
  os::prepare_barrier();
  EXPECT_EQ(errno, kMark);
  EXPECT_FALSE(os::has_barrier());
  EXPECT_FALSE(os::barrier_everywhere());
  EXPECT_EQ(errno, kMark);
}

FRESH_TEST(Barrier, SaysWhenItIsRefusedLater) {
  os::prepare_barrier();
  const bool offered = os::has_barrier();
  for (const unsigned error : {unsigned{EPERM}, unsigned{ENOSYS}}) {
    test::run_fresh([&] {
      refuse_barriers(error);
      errno = kMark;
      EXPECT_FALSE(os::barrier_everywhere());
      EXPECT_EQ(errno, kMark);
      EXPECT_EQ(os::has_barrier(), offered) << "it is fixed";
    });
  }
}

// The other thread needs no fence of its own: of "I write mine and read yours" at least one sees the other.
FRESH_TEST(Barrier, OrdersTheOtherThread) {
  os::prepare_barrier();
  if (!os::has_barrier()) GTEST_SKIP() << "this kernel has none";
  constexpr u32 kRounds = 20'000;
  Atomic<u32> mine, theirs, seen;
  std::atomic<u32> started{0}, finished{0};
  std::thread other([&] {
    for (u32 round = 1; round <= kRounds; ++round) {
      while (started.load() < round) {
      }
      theirs.store(round, relaxed);
      compiler_fence();
      seen.store(mine.load(relaxed), relaxed);
      finished.store(round);
    }
  });
  u32 neither = 0;
  for (u32 round = 1; round <= kRounds; ++round) {
    started.store(round);
    mine.store(round, relaxed);
    EXPECT_TRUE(os::barrier_everywhere());
    const u32 found = theirs.load(relaxed);
    while (finished.load() < round) std::this_thread::yield();
    if (found != round && seen.load(relaxed) != round) ++neither;
  }
  other.join();
  EXPECT_EQ(neither, 0u);
}

}  // namespace
}  // namespace coffer
