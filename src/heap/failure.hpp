// SPDX-License-Identifier: MIT
// A malloc that fails looks for all memory there is: 140,000 instructions, and a dozen system calls. The next one need
// not, as long as nothing came back since. How that is known, of all that could serve it:
//
//   what came back                                        how it is known
//   by others, or from large blocks and mixed spans       g_supply (span/shortage.hpp)
//   freed by other threads into spans of their own heaps  their calls take the note away that the search left
//                                                         (exchange/seizing.hpp)
//   freed by the thread itself into spans of its heap     none of these is hot after a search, nor without a refill
//                                                         since; of those on rings the next such free is an event
//   new memory                                            the limit is asked again; where there is none, the kernel
//   the limit goes                                        it is supply (PlainAllocator::set_limit)
//
// While other threads make calls, each failure looks for everything.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// Before a search for a class and all larger ones, for who asks for no alignment.
void begin_search(Heap* heap);
// It was in vain.
void remember_failure(Heap* heap, ClassIndex size_class);
// Whether a search for the class would be in vain again.
bool fails_again(const Heap* heap, ClassIndex size_class);

}  // namespace coffer
