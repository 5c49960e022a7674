// SPDX-License-Identifier: MIT
// os/linux in processes with limits, and with locked memory.
#include <errno.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/bits.hpp"
#include "os/os.hpp"
#include "os/probe.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kMiB = 1024 * 1024;
constexpr usize kTiB = usize{1} << 40;

bool set_limit(int what, usize bytes) {
  const struct rlimit limit = {bytes, bytes};
  return setrlimit(static_cast<decltype(RLIMIT_AS)>(what), &limit) == 0;
}

// Gives every privilege up, for good.
bool become_nobody() {
  if (geteuid() != 0) return true;
  return setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
}

// Whether locks are bounded by nothing but the machine: then a lock over any limit succeeds.
bool may_lock_all() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  limit.rlim_cur = 4 * kMiB;
  setrlimit(RLIMIT_MEMLOCK, &limit);
  void* const memory = mmap(nullptr, 8 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED && mlock(memory, 8 * kMiB) == 0;
}

constexpr int kCannot = 77;  // a child's answer: this machine does not allow the test

class Limits : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitizer) GTEST_SKIP() << "limits and locks are the sanitizer's";
  }
};

using Locked = Limits;

TEST_F(Limits, NoneGivesWhatIsWanted) {
  EXPECT_EQ(in_child([] {
              // A limit that the test was started with stands: then there is nothing to see.
              struct rlimit limit;
              if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return 0;
              if (geteuid() == 0) set_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
              EXPECT_IN_CHILD(os::reservation_limit(16 * kTiB) == 16 * kTiB || geteuid() != 0);
              EXPECT_IN_CHILD(os::reservation_limit(kMiB) == kMiB);
              return 0;
            }),
            0);
}

TEST_F(Limits, AddressSpaceGivesAQuarterOfWhatIsLeft) {
  EXPECT_EQ(in_child([] {
              EXPECT_IN_CHILD(set_limit(RLIMIT_AS, 1024 * kMiB));
              errno = 4242;
              const usize before = os::reservation_limit(16 * kTiB);
              EXPECT_IN_CHILD(errno == 4242);
              EXPECT_IN_CHILD(before <= 256 * kMiB && before >= 128 * kMiB);
              EXPECT_IN_CHILD(os::reservation_limit(kMiB) == kMiB);
              EXPECT_IN_CHILD(os::reserve(200 * kMiB, 2 * kMiB) != nullptr);
              const usize after = os::reservation_limit(16 * kTiB);
              EXPECT_IN_CHILD(after <= before - 49 * kMiB && after >= before - 51 * kMiB);
              EXPECT_IN_CHILD(os::reserve(2048 * kMiB, 2 * kMiB) == nullptr);
              return 0;
            }),
            0);
}

TEST_F(Limits, LockableMemoryBoundsUnprivilegedProcesses) {
  const int result = in_child([] {
    if (!set_limit(RLIMIT_MEMLOCK, 1024 * kMiB)) return kCannot;
    EXPECT_IN_CHILD(become_nobody());
    const usize limit = os::reservation_limit(16 * kTiB);
    EXPECT_IN_CHILD(limit < 1024 * kMiB && limit >= 256 * kMiB);
    return 0;
  });
  if (result == kCannot) GTEST_SKIP() << "the limit may not be raised";
  EXPECT_EQ(result, 0);
}

TEST_F(Limits, SmallLockableMemoryIsNoWish) {
  EXPECT_EQ(in_child([] {
              EXPECT_IN_CHILD(set_limit(RLIMIT_MEMLOCK, 8 * kMiB));
              EXPECT_IN_CHILD(become_nobody());
              EXPECT_IN_CHILD(os::reservation_limit(16 * kTiB) == 16 * kTiB);
              return 0;
            }),
            0);
}

TEST_F(Limits, LockableMemoryDoesNotBoundThePrivileged) {
  const int result = in_child([] {
    if (!may_lock_all() || !set_limit(RLIMIT_MEMLOCK, 1024 * kMiB)) return kCannot;
    EXPECT_IN_CHILD(os::reservation_limit(16 * kTiB) == 16 * kTiB);
    return 0;
  });
  if (result == kCannot) GTEST_SKIP() << "not privileged, or the limit may not be raised";
  EXPECT_EQ(result, 0);
}

// Memory that was reserved before the process asked for locks and committed after, and the other way round.
int expect_locked(int flags, bool reserve_first) {
  constexpr usize kLength = 4 * kMiB;
  void* memory = reserve_first ? os::reserve(kLength, 2 * kMiB) : nullptr;
  if (mlockall(flags) != 0) return kCannot;
  if (!reserve_first) memory = os::reserve(kLength, 2 * kMiB);
  EXPECT_IN_CHILD(memory != nullptr);
  errno = 4242;
  EXPECT_IN_CHILD(os::commit(memory, kLength));
  EXPECT_IN_CHILD(errno == 4242);
  // Locked memory refuses to be thrown away.
  EXPECT_IN_CHILD(madvise(memory, kLength, MADV_DONTNEED) != 0 && errno == EINVAL);
  EXPECT_IN_CHILD(status_bytes("VmLck") >= kLength);
  const usize resident = resident_pages(memory, kLength) * os::page_size();
  EXPECT_IN_CHILD(resident == ((flags & MCL_ONFAULT) != 0 ? 0 : kLength));
  std::memset(memory, 7, kLength);
  errno = 4242;
  EXPECT_IN_CHILD(os::purge(memory, kLength));
  EXPECT_IN_CHILD(errno == 4242);
  EXPECT_IN_CHILD(all_bytes(memory, kLength, 0));
  EXPECT_IN_CHILD(madvise(memory, kLength, MADV_DONTNEED) != 0);
  return 0;
}

void expect_locked_with(int flags) {
  for (const bool reserve_first : {true, false}) {
    const int result = in_child([&] { return expect_locked(flags, reserve_first); });
    if (result == kCannot) GTEST_SKIP() << "mlockall is refused";
    EXPECT_EQ(result, 0) << (reserve_first ? "reserved before mlockall" : "reserved after mlockall");
  }
}

TEST_F(Locked, Future) { expect_locked_with(MCL_FUTURE); }
TEST_F(Locked, CurrentAndFuture) { expect_locked_with(MCL_CURRENT | MCL_FUTURE); }
TEST_F(Locked, FutureOnFault) { expect_locked_with(MCL_FUTURE | MCL_ONFAULT); }

TEST_F(Locked, CurrentAloneLocksNothingNew) {
  const int result = in_child([] {
    if (mlockall(MCL_CURRENT) != 0) return kCannot;
    void* const memory = os::reserve(4 * kMiB, 2 * kMiB);
    EXPECT_IN_CHILD(memory != nullptr && os::commit(memory, 4 * kMiB));
    EXPECT_IN_CHILD(madvise(memory, 4 * kMiB, MADV_DONTNEED) == 0);
    return 0;
  });
  if (result == kCannot) GTEST_SKIP() << "mlockall is refused";
  EXPECT_EQ(result, 0);
}

TEST_F(Locked, PurgeWorksOnSinglePagesThatAreLocked) {
  const int result = in_child([] {
    const usize page = os::page_size();
    auto* const memory = static_cast<unsigned char*>(os::reserve(16 * page, 2 * kMiB));
    EXPECT_IN_CHILD(memory != nullptr && os::commit(memory, 16 * page));
    std::memset(memory, 7, 16 * page);
    if (mlock(memory + 4 * page, 2 * page) != 0) return kCannot;
    EXPECT_IN_CHILD(os::purge(memory, 16 * page));
    EXPECT_IN_CHILD(all_bytes(memory, 16 * page, 0));
    EXPECT_IN_CHILD(status_bytes("VmLck") == 2 * page);
    return 0;
  });
  if (result == kCannot) GTEST_SKIP() << "mlock is refused";
  EXPECT_EQ(result, 0);
}

TEST_F(Locked, CommitFailsPastTheLimit) {
  const int result = in_child([] {
    void* const memory = os::reserve(64 * kMiB, 2 * kMiB);
    EXPECT_IN_CHILD(memory != nullptr);
    if (!set_limit(RLIMIT_MEMLOCK, 4 * kMiB) || !become_nobody()) return kCannot;
    if (mlockall(MCL_FUTURE) != 0) return kCannot;
    EXPECT_IN_CHILD(os::commit(memory, kMiB));
    errno = 4242;
    EXPECT_IN_CHILD(!os::commit(static_cast<unsigned char*>(memory) + 2 * kMiB, 32 * kMiB));
    EXPECT_IN_CHILD(errno == 4242);
    EXPECT_IN_CHILD(os::commit(static_cast<unsigned char*>(memory) + kMiB, kMiB));
    return 0;
  });
  if (result == kCannot) GTEST_SKIP() << "limits are refused";
  EXPECT_EQ(result, 0);
}

TEST(Commit, ReportsAFullMappingTable) {
  // Every second page committed needs a mapping for each; the kernel's limit is 65,530 by default.
  EXPECT_EQ(in_child([] {
              std::ifstream setting("/proc/sys/vm/max_map_count");
              usize most = 0;
              if (!(setting >> most) || most > 300'000) return 0;
              const usize page = os::page_size();
              const usize length = (2 * most + 1000) * page;
              auto* const memory = static_cast<unsigned char*>(os::reserve(length, 2 * kMiB));
              EXPECT_IN_CHILD(memory != nullptr);
              usize at = 0;
              errno = 4242;
              while (at < length && os::commit(memory + at, page)) at += 2 * page;
              EXPECT_IN_CHILD(errno == 4242);
              EXPECT_IN_CHILD(at < length);
              // What joins two mappings goes on.
              EXPECT_IN_CHILD(os::commit(memory + page, page));
              memory[page] = memory[0] = 1;
              EXPECT_IN_CHILD(os::purge(memory, 2 * page));
              EXPECT_IN_CHILD(os::commit(memory + at, page));
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace coffer
