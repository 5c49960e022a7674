// SPDX-License-Identifier: MIT
// Giving back whole pages inside partly used spans. A span in the partial pool is nobody's: whoever takes it from there
// under the pool's lock, as an adopter would, has it alone. It walks the span's lists, finds the pages that no live
// block reaches, takes the free blocks that start in them off the list, marks the pages absent, gives them back, and
// shares the span again. To the next owner they are pages never carved.
#pragma once

#include "span/span.hpp"

namespace coffer {

// Puts a listed span into the partial pool. false: it became empty meanwhile, and the caller has to end it.
bool insert_listed(Span* span);
// After a span was listed: when the spans in the pool hold much that was not looked at, looks at the oldest. The cost
// is bounded, and about that of the frees that listed a span. The caller holds no lock of Coffer's, and no span that it
// has claimed or taken: it may end here, or wait for a lock.
void look_at_oldest();

// Looks at the pages of spans that wait for it, the oldest first, in all shards and classes: those put in at least
// `least_age` ticks ago, at most `most` of them. Returns the bytes given back; *looked: at how many it looked.
usize purge_waiting_spans(u32 least_age, u32 most, u32* looked = nullptr);
// The same for all listed spans, whether or not they were looked at before.
usize purge_all_spans();

// A chore of the reclaimer.
bool purge_spans_that_wait();
bool purge_spans_step();  // see Chore (pool/reclaimer.hpp)

// Bytes of a span's pages, of a mixed one, too, that nobody touched since they were fresh or purged.
usize unbacked_bytes(const Span* span);

}  // namespace coffer
