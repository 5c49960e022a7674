// SPDX-License-Identifier: MIT
// Of the hardened build: how the blocks of a page are linked when it is carved (carve_blocks).
#pragma once

#include "base/hardening.hpp"
#include "span/span.hpp"

namespace coffer {

// Links the blocks from .. to - 1 in random order, and has them zero but for that.
Linked link_shuffled(const Span* span, u32 from, u32 to);

}  // namespace coffer
