// SPDX-License-Identifier: MIT
// An address space that ends: reservations are refused beyond a limit, from none at all to more than the workload
// needs. The allocator has to do with less, to say ENOMEM when there is none left, and to work again afterwards.
//
//   small_space [--mib N (this limit only, in this process)]
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "fault/workload.hpp"
#include "os/fake/fake.hpp"
#include "support/arguments.hpp"

namespace coffer::test {
namespace {

namespace fake = os::fake;

constexpr unsigned kSecondsOfRun = 60;
constexpr std::size_t kMostLiveAfterRefusals = 256 * kKiB;  // one page of blocks a class, see Workload

// Blocks of one size until there are no more; all of them are good, and all can be had again after they were freed.
std::size_t fill_up(std::size_t size) {
  std::size_t counts[2] = {};
  for (std::size_t& count : counts) {
    std::vector<HeldBlock> blocks;
    Random random(size);
    for (;;) {
      errno = 0;
      void* const at = coffer_malloc(size);
      if (at == nullptr) break;
      blocks.push_back(hold(at, size, random.next()));
    }
    REQUIRE(errno == ENOMEM, "exhausted with errno %d", errno);
    check_allocator("when exhausted");
    count = blocks.size();
    for (HeldBlock& block : blocks) release(block);
    check_allocator("after all blocks were freed");
  }
  // The second time a class may lose a little to what was kept for others, never most of it.
  REQUIRE(counts[1] >= counts[0] - counts[0] / 4, "blocks of %zu bytes: %zu fit at first, then %zu", size, counts[0],
          counts[1]);
  return counts[0];
}

void run_with(std::size_t bytes) {
  fake::set_address_space(bytes);
  const std::size_t before = fake::reserved_bytes();
  if (bytes <= 256 * kMiB && bytes != 0) {
    for (const std::size_t size : {1024ul, 20000ul, 100 * kKiB, kMiB, 3 * kMiB}) {
      const std::size_t count = fill_up(size);
      std::printf("%zu MiB: %zu blocks of %zu bytes\n", bytes / kMiB, count, size);
      REQUIRE(bytes < 64 * kMiB || count * size >= bytes / 4, "only %zu blocks of %zu bytes in %zu MiB", count, size,
              bytes / kMiB);
    }
  }
  Workload tight(true, kMostLiveAfterRefusals);
  tight.run();
  REQUIRE(bytes == 0 || fake::reserved_bytes() <= bytes, "reserved %zu of %zu", fake::reserved_bytes() - before, bytes);
  fake::set_address_space(0);
  Workload(false, tight.live_after()).run_short();
}

int small_space(const Arguments& arguments) {
  if (arguments.given("--mib")) {
    run_with(arguments.number("--mib", 64) * kMiB);
    return 0;
  }
  int failed = 0;
  for (const std::size_t mib : {1, 2, 4, 9, 16, 20, 33, 64, 100, 150, 200, 256, 1000, 5000}) {
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0, "fork failed");
    if (child == 0) {
      alarm(kSecondsOfRun);
      run_with(mib * kMiB);
      std::fflush(nullptr);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
    if (status != 0) {
      ++failed;
      std::printf("FAILED: --mib %zu (status %#x)\n", mib, static_cast<unsigned>(status));
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::small_space(coffer::test::Arguments(argc, argv)); }
