// SPDX-License-Identifier: MIT
// Stand-ins for malloc, calloc and free of the fewest instructions: what a call costs without an allocator. Their
// lengths are known to bench/instructions.py (kStub... there), which adds them again.
#include <cstddef>

extern "C" {

alignas(64) char bench_stub_memory[4096];

void* bench_stub_malloc(std::size_t) { return bench_stub_memory; }
void* bench_stub_calloc(std::size_t, std::size_t) { return bench_stub_memory; }
void bench_stub_free(void*) {}
}
