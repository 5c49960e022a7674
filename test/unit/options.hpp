// SPDX-License-Identifier: MIT
// Options for tests that run in a child of their own (fresh.hpp), in place of a variable in the environment.
#pragma once

#include "config/config.hpp"

namespace coffer::test {

// Load them first: a later load would bring the defaults back.
inline config::Options& changeable_options() {
  config::load();
  return const_cast<config::Options&>(config::options());
}

}  // namespace coffer::test
