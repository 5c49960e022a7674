// SPDX-License-Identifier: MIT
// What is found about a block that is freed and bears the mark of a free one (arena/block.hpp).
#pragma once

#include "span/span.hpp"

namespace coffer {

// Whether a block is free: on a list, or in a page that was not carved. Any thread, inside or not; `span` is the first
// record. Looks at lists that others work on, so that it may not find a block that another thread has in its hands just
// now: then malloc finds it before it hands it out a second time.
bool is_freed(const Span* span, const void* block);

}  // namespace coffer
