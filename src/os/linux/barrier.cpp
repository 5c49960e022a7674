// SPDX-License-Identifier: MIT
// A memory barrier on every processor that runs a thread of this process: membarrier(2).
#include <linux/membarrier.h>

#include "base/atomic.hpp"
#include "os/linux/calls.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

Owned<bool> g_registered;

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

void prepare_barrier() {
  const KeepErrno keep;
  g_registered.set(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

bool has_barrier() { return g_registered.get(); }

bool barrier_everywhere() {
  const KeepErrno keep;
  bool done = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  // The registration is the address space's: a kernel that did not hand it on to a fork child wants it anew.
  if (!done && errno == EPERM && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) {
    done = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  return done;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
