// SPDX-License-Identifier: MIT
// In which order an empty span hands out its blocks again.
#pragma once

#include "span/span.hpp"

namespace coffer {

// Of a span that its heap takes from a ring to use it: if all blocks are free that were carved, and their list leads
// back and forth, they are carved again, in address order. What a program builds from them, and reads in the order in
// which it built it, then lies in that order. Constant time.
void restore_order(Span* span);

}  // namespace coffer
