# SPDX-License-Identifier: MIT
"""The tests of oneTBB's allocator that go by its C functions."""

from outside.suite import Origin, Suite, Test

INSIDE = "the inside of oneTBB's allocator"
SUITE = Suite(
    name="oneTBB",
    origin=Origin("debian source", "onetbb"),
    how="three tests of test/tbbmalloc, over a header of ours in place of tbb/scalable_allocator.h",
    root="oneTBB-*",
    present=("test/tbbmalloc/*.c", "test/tbbmalloc/*.cpp"),
    includes=("include", "test", "."),
    tests=(
        Test("test_malloc_compliance", "test/tbbmalloc/test_malloc_compliance.cpp", timeout=300),
        Test("test_malloc_pure_c", "test/tbbmalloc/test_malloc_pure_c.c"),
        Test("test_malloc_regression", "test/tbbmalloc/test_malloc_regression.cpp"),
    ),
    left_out={
        "test_malloc_atexit": "looks for scalable_msize in the process",
        "test_malloc_init_shutdown": INSIDE, "test_malloc_whitebox": INSIDE,
        "test_malloc_lib_unload": "loads and unloads oneTBB's library",
        "test_malloc_used_by_lib": "as test_malloc_lib_unload",
        "test_malloc_overload": "headers of oneTBB's large blocks", "test_malloc_overload_disable": "for Windows",
        "test_malloc_new_handler": "takes terabytes of address space on eight threads, and gigabytes of memory",
        "test_malloc_pools": "oneTBB's memory pools",
        "test_malloc_shutdown_hang": INSIDE, "test_scalable_allocator": "C++ templates over oneTBB's pools",
    },
)
