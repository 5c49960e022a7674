// SPDX-License-Identifier: MIT
// The part of the interface that looks at the allocator and does not allocate.
#include "heap/plain_allocator.hpp"

#include "exchange/registry.hpp"
#include "inspect/profiling.hpp"
#include "inspect/walk.hpp"
#include "inspect/watching.hpp"

namespace coffer {

void PlainAllocator::statistics(Statistics& statistics) { collect_statistics(statistics); }
void PlainAllocator::figures(Figures& figures) { collect_figures(figures); }
bool PlainAllocator::heap_statistics(u32 index, HeapStatistics& statistics) { return collect_heap(index, statistics); }
usize PlainAllocator::check() { return check_everything(); }
// Cold, and what they call: code that every process runs at its start lies together, or small ones map more of it.
COFFER_COLD void PlainAllocator::loaded() { watching_prepare(); }
COFFER_COLD void PlainAllocator::ending() { watching_end(); }
void PlainAllocator::profile_start(usize mean) {
  if (!start_process()) return;
  handle_forks();
  coffer::profile_start(mean);
}
void PlainAllocator::profile_stop() { coffer::profile_stop(); }
bool PlainAllocator::profile_dump(const char* path) { return start_process() && coffer::profile_dump(path); }

}  // namespace coffer
