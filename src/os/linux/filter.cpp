// SPDX-License-Identifier: MIT
#include "os/linux/filter.hpp"

#include <sys/prctl.h>

#include "base/atomic.hpp"
#include "os/linux/calls.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

Atomic<Filter> g_filter;

}  // namespace

// A filter cannot be taken off again. One that forbids the question with an error is one, too.
Filter filter_now() {
  const Filter before = g_filter.load(relaxed);  // relaxed, both: who comes late asks the kernel himself
  if (before == Filter::at_start || before == Filter::since) return before;
  const KeepErrno keep;
  const bool filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
  const Filter now = !filtered ? Filter::none : before == Filter::unknown ? Filter::at_start : Filter::since;
  g_filter.store(now, relaxed);
  return now;
}

void note_filter() { filter_now(); }

bool filter_came() { return filter_now() == Filter::since; }

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
