// SPDX-License-Identifier: MIT
#include "budget/budget.hpp"

#include "config/config.hpp"
#include "observe/counters.hpp"

namespace coffer {

void limit_start() {
  usize unset = kLimitUnset;
  // relaxed: see charge.
  while (!budget().limit.compare_exchange(unset, encode_limit(config::options().limit), relaxed, relaxed)) {
    if (unset != kLimitUnset) return;
  }
}

usize get_limit() {
  const usize limit = budget().limit.load(relaxed);  // relaxed: see charge
  return limit == kLimitUnset ? config::options().limit : limit - 1;
}

bool limit_could_allow(usize bytes) {
  const usize limit = budget().limit.load(relaxed);  // relaxed, both: see charge; records only grow
  if (limit <= kLimitNone) return true;
  const usize records = counters().metadata.load(relaxed);
  return limit - 1 >= records && bytes <= limit - 1 - records;
}

}  // namespace coffer
