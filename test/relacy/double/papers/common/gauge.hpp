// SPDX-License-Identifier: MIT
// papers/common/gauge.hpp for Relacy: figures for people, which nothing depends on.
#pragma once

#include "base/base.hpp"

namespace coffer::papers {

struct Gauge {
  void add(usize) {}
  void subtract(usize) {}
  usize now() const { return 0; }
  usize peak() const { return 0; }
};

struct Totals {
  Gauge held, mapped, mapped_blocks, metadata, reserved;
};

inline Totals& totals() {
  static Totals instance;
  return instance;
}

}  // namespace coffer::papers
