// SPDX-License-Identifier: MIT
// What is found about a block that is freed and bears the mark of a free one (arena/block.hpp).
#pragma once

#include "span/span.hpp"

namespace coffer {

enum class Freed : u8 {
  no,       // its first words are the program's
  yes,      // it is on a list, or in a page that was not cut
  unknown,  // signed as only free does, and on no list that was found: another thread has it in its hands just now, or
            // the program copied what it found in memory that it had not written to
};
// Any thread, inside or not; `span` is the first record. Looks at lists that others work on, which is why it may fail
// to find a block: then nobody is stopped, and a block that must not be on a list twice is left where it is.
Freed find_freed(const Span* span, const void* block);

}  // namespace coffer
