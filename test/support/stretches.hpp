// SPDX-License-Identifier: MIT
// The part of delta debugging that every shrinker has: leaves out stretches of a list, long ones first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace coffer::test {

// `list` is what fails now; take(rest) tries what is left without a stretch, and if it fails has put it, or a part of
// it, into `list`. in_time() says whether to go on.
template <class T, class Take, class InTime>
void remove_stretches(std::vector<T>& list, const Take& take, const InTime& in_time) {
  for (std::size_t width = (list.size() + 1) / 2; width > 0 && in_time(); width = width == 1 ? 0 : (width + 1) / 2) {
    for (std::size_t first = 0; first < list.size() && in_time();) {
      std::vector<T> rest = list;
      const std::size_t last = std::min(first + width, rest.size());
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(first), rest.begin() + static_cast<std::ptrdiff_t>(last));
      if (!take(std::move(rest))) first += width;
    }
  }
}

}  // namespace coffer::test
