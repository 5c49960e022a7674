# SPDX-License-Identifier: MIT
"""The tests of gperftools' tcmalloc that go by malloc."""

from outside.suite import Origin, Suite, Test

INSIDE = "tcmalloc's inside"
OTHER = "another part of gperftools"
SUITE = Suite(
    name="gperftools",
    origin=Origin("debian source", "google-perftools"),
    how="four tests of src/tests, over headers of ours in place of gperftools' own",
    root="gperftools-*/src/tests",
    present=("*.cc", "*.c"),
    tests=(
        Test("memalign_unittest", "memalign_unittest.cc"),
        Test("realloc_unittest", "realloc_unittest.cc"),
        Test("tcmalloc_large_unittest", "tcmalloc_large_unittest.cc"),
        Test("thread_dealloc_unittest", "thread_dealloc_unittest.cc"),
    ),
    left_out={
        "tcmalloc_unittest": "the thread cache, hooks, tc_* functions, nallocx",
        "frag_unittest": "MallocExtension's heap size",
        "large_heap_fragmentation_unittest": "tcmalloc's page size and its MallocExtension",
        "current_allocated_bytes_test": "MallocExtension", "malloc_extension_test": "MallocExtension",
        "malloc_extension_c_test": "MallocExtension", "markidle_unittest": "MallocExtension",
        "malloc_hook_test": "MallocHook", "system-alloc_unittest": "tcmalloc's SysAllocator",
        "debugallocation_test": "the debugging tcmalloc",
        "addressmap_unittest": OTHER, "atomicops_unittest": OTHER, "getpc_test": OTHER,
        "heap-checker_unittest": OTHER, "heap-profiler_unittest": OTHER, "profile-handler_unittest": OTHER,
        "profiledata_unittest": OTHER, "profiler_unittest": OTHER, "raw_printer_test": OTHER,
        "simple_compat_test": OTHER, "stacktrace_unittest": OTHER, "testutil": "a helper of the tests",
        "low_level_alloc_unittest": INSIDE, "packed-cache_test": INSIDE, "page_heap_test": INSIDE,
        "pagemap_unittest": INSIDE, "sampler_test": INSIDE, "sampling_test": INSIDE, "stack_trace_table_test": INSIDE,
    },
)
