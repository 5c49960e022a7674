// SPDX-License-Identifier: MIT
#include "trial/shown.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "inspect/profiling.hpp"
#include "inspect/watching.hpp"

namespace coffer::trial {

namespace {

constexpr usize kMean = 4096;  // bytes from sample to sample

}  // namespace

void show(Shown what) {
  switch (what) {
    case Shown::figures:
      share_now();
      if (shared_path() != nullptr) unlink(shared_path());  // at once: a world may end anyhow
      break;
    case Shown::begin:
      profile_start(kMean);
      break;
    case Shown::profile: {
      const int file = memfd_create("profile", MFD_CLOEXEC);
      profile_write(file);
      close(file);
      break;
    }
    case Shown::end:
      profile_stop();
      break;
  }
}

}  // namespace coffer::trial
