// SPDX-License-Identifier: MIT
// The limits of control groups, read from a tree of files in a temporary folder that stands for / .
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "os/os.hpp"

namespace coffer {
namespace {

namespace fs = std::filesystem;

constexpr usize kMiB = usize{1} << 20;

// A machine's /proc and /sys, as far as they are read.
class Cgroup : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/coffer_cgroup.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  // The groups the process is in, and what is mounted.
  void groups(const std::string& text) { write("/proc/self/cgroup", text); }
  void mounts(const std::string& text) {
    write("/proc/self/mountinfo",
          "22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw\n"
          "28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard,errors=remount-ro\n" +
              text);
  }
  void plain_v2(const std::string& group) {
    groups("0::" + group + "\n");
    mounts("30 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  usize limit() {
    errno = 77;
    const usize got = os::cgroup_memory_limit(root_.c_str());
    EXPECT_EQ(errno, 77) << "errno is kept";
    return got;
  }

  std::string root_;
};

TEST_F(Cgroup, NothingToReadIsNoLimit) {
  EXPECT_EQ(limit(), os::kNoMemoryLimit);
  groups("0::/a\n");
  EXPECT_EQ(limit(), os::kNoMemoryLimit);
  mounts("");
  EXPECT_EQ(limit(), os::kNoMemoryLimit) << "nothing of that kind is mounted";
  plain_v2("/a");
  EXPECT_EQ(limit(), os::kNoMemoryLimit) << "no file";
}

TEST_F(Cgroup, TheLowestOfMaxAndHighOfTheGroupAndThoseAbove) {
  plain_v2("/user.slice/app.scope");
  write("/sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
  write("/sys/fs/cgroup/user.slice/app.scope/memory.high", "max\n");
  EXPECT_EQ(limit(), os::kNoMemoryLimit);
  write("/sys/fs/cgroup/user.slice/app.scope/memory.max", "104857600\n");
  EXPECT_EQ(limit(), 100 * kMiB);
  write("/sys/fs/cgroup/user.slice/app.scope/memory.high", "94371840\n");
  EXPECT_EQ(limit(), 90 * kMiB);
  write("/sys/fs/cgroup/user.slice/memory.max", "83886080\n");
  EXPECT_EQ(limit(), 80 * kMiB) << "the group above";
  write("/sys/fs/cgroup/user.slice/memory.high", "73400320\n");
  EXPECT_EQ(limit(), 70 * kMiB);
  write("/sys/fs/cgroup/memory.max", "62914560\n");
  EXPECT_EQ(limit(), 60 * kMiB) << "the mount point itself";
  write("/sys/fs/memory.max", "1\n");
  EXPECT_EQ(limit(), 60 * kMiB) << "and nothing above it";
  write("/sys/fs/cgroup/user.slice/other/memory.max", "1\n");
  EXPECT_EQ(limit(), 60 * kMiB) << "nor beside";
}

TEST_F(Cgroup, TheRootGroup) {
  plain_v2("/");
  write("/sys/fs/cgroup/memory.max", "1048576");
  EXPECT_EQ(limit(), kMiB) << "without a line end, too";
}

TEST_F(Cgroup, OddContents) {
  plain_v2("/a");
  for (const char* text :
       {"", "\n", "max", "maximum", "-1", " 5", "1152921504606846976", "99999999999999999999999999"}) {
    write("/sys/fs/cgroup/a/memory.max", text);
    EXPECT_EQ(limit(), os::kNoMemoryLimit) << text;
  }
  write("/sys/fs/cgroup/a/memory.max", "0\n");
  EXPECT_EQ(limit(), 0u);
}

TEST_F(Cgroup, AContainerThatSeesItsOwnGroupAsTheMount) {
  groups("0::/docker/0123abc\n");
  mounts("30 22 0:26 /docker/0123abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
  write("/sys/fs/cgroup/memory.max", "5242880\n");
  EXPECT_EQ(limit(), 5 * kMiB);
  groups("0::/docker/0123abc/inner\n");
  write("/sys/fs/cgroup/inner/memory.max", "4194304\n");
  EXPECT_EQ(limit(), 4 * kMiB);
  // Another group whose name only begins like it.
  groups("0::/docker/0123abcdef\n");
  write("/sys/fs/cgroup/def/memory.max", "1\n");
  EXPECT_EQ(limit(), 5 * kMiB) << "not visible: what is mounted holds at least";
}

TEST_F(Cgroup, AGroupOutsideOfTheNamespace) {
  plain_v2("/../other");
  write("/sys/fs/other/memory.max", "1\n");
  write("/sys/fs/cgroup/memory.max", "3145728\n");
  EXPECT_EQ(limit(), 3 * kMiB);
}

TEST_F(Cgroup, VersionOne) {
  groups("12:pids:/user.slice\n4:memory,hugetlb:/docker/abc\n3:cpu,cpuacct:/x\n1:name=systemd:/init.scope\n0::/y\n");
  mounts(
      "31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 22 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory,hugetlb\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), os::kNoMemoryLimit);
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "7340032\n");
  write("/sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(limit(), 7 * kMiB);
  write("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "6291456\n");
  EXPECT_EQ(limit(), 6 * kMiB);
}

// The kernel limits memory in one hierarchy only.
TEST_F(Cgroup, OfBothVersionsTheOneThatHasMemory) {
  groups("4:pids:/one\n0::/two\n");
  mounts(
      "32 22 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/unified/two/memory.high", "6291456\n");
  EXPECT_EQ(limit(), 6 * kMiB);
  groups("4:memory:/one\n0::/two\n");
  EXPECT_EQ(limit(), os::kNoMemoryLimit);
  write("/sys/fs/cgroup/memory/one/memory.limit_in_bytes", "7340032\n");
  EXPECT_EQ(limit(), 7 * kMiB);
}

TEST_F(Cgroup, InItsUsualPlaceItIsFoundWithoutTheListOfMounts) {
  groups("0::/a/b\n");
  write("/sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(limit(), os::kNoMemoryLimit) << "what is not the group itself may be another's";
  write("/sys/fs/cgroup/a/b/memory.max", "3145728\n");
  EXPECT_EQ(limit(), kMiB) << "the groups above it, too";
  groups("4:memory:/c\n0::/a/b\n");
  write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(limit(), 2 * kMiB);
}

TEST_F(Cgroup, PathsWithSpacesAndBackslashes) {
  groups("0::/my group/a\\b\n");
  mounts("30 22 0:26 / /sys/my\\040fs/c\\134d rw - cgroup2 cgroup2 rw\n");
  write("/sys/my fs/c\\d/my group/a\\b/memory.max", "2097152\n");
  EXPECT_EQ(limit(), 2 * kMiB);
}

TEST_F(Cgroup, LinesLongerThanAnyBuffer) {
  groups("9:" + std::string(5000, 'x') + ":/q\n0::/a\n");
  std::string options;
  for (int i = 0; i < 500; ++i) options += "lowerdir=/var/lib/layers/" + std::to_string(i) + ":";
  mounts("29 22 0:25 / /" + std::string(3000, 'm') + " rw - overlay overlay " + options +
         "\n"
         "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/a/memory.max", "2097152\n");
  EXPECT_EQ(limit(), 2 * kMiB);
  // A path of its own that is too long is not followed, nor cut off.
  groups("0::/" + std::string(700, 'a') + "\n");
  EXPECT_EQ(limit(), os::kNoMemoryLimit);
  groups("0::/a");
  EXPECT_EQ(limit(), 2 * kMiB) << "the last line may lack its end";
}

TEST_F(Cgroup, TornFiles) {
  const std::string lines[] = {"30",
                               "30 22",
                               "30 22 0:26 / ",
                               "30 22 0:26 / /sys/fs/cgroup rw -",
                               "30 22 0:26 / /sys/fs/cgroup rw - cgroup2",
                               "- - - - - - - -",
                               "\n\n\n"};
  groups("0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "2097152\n");
  for (const std::string& line : lines) {
    write("/proc/self/mountinfo", line);
    limit();
    write("/proc/self/mountinfo", line + "\n30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    EXPECT_EQ(limit(), 2 * kMiB) << line;
  }
  for (const char* text : {"", "0", "0:", "0::", "0::a", ":::", "\n"}) {
    groups(text);
    EXPECT_EQ(limit(), os::kNoMemoryLimit) << text;
  }
}

// The kernel's own: a group is made for a child if this machine lets the test do so.
TEST(RealCgroup, TheLimitOfAGroupOfVersionTwoIsFound) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string point;
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    usize from = 0;
    for (int i = 0; i < 4; ++i) from = line.find(' ', from) + 1;
    point = line.substr(from, line.find(' ', from) - from);
  }
  if (point.empty()) GTEST_SKIP() << "no cgroup of version 2 is mounted here";
  const std::string group = point + "/coffer_test." + std::to_string(getpid());
  if (mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no group may be made in " << point << ": errno " << errno;
  const auto put = [&](const char* name, const std::string& text) {
    std::ofstream file(group + name);
    file << text;
    file.flush();
    return file.good();
  };
  bool made = put("/memory.max", "268435456");
  usize seen = 0;
  if (made) {
    const pid_t child = fork();
    if (child == 0) {
      if (!put("/cgroup.procs", std::to_string(getpid()))) _exit(77);
      _exit(os::cgroup_memory_limit("") == 256 * kMiB ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    made = WIFEXITED(status) && WEXITSTATUS(status) != 77;
    seen = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  rmdir(group.c_str());
  if (!made) GTEST_SKIP() << "the memory controller is not to be had in " << group;
  EXPECT_EQ(seen, 1u);
}

}  // namespace
}  // namespace coffer
