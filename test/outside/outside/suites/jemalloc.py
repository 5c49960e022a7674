# SPDX-License-Identifier: MIT
"""jemalloc's integration tests, and of its unit tests the one that asks nothing of jemalloc's inside."""

from outside.suite import Origin, Suite, Test

CONTROL = "jemalloc's own interface: mallocx and the like"
SUITE = Suite(
    name="jemalloc",
    origin=Origin("crate", "tikv-jemalloc-sys", "0.7.1"),
    how="each test of test/integration that goes by malloc, and its unit test of fork, over a header of ours in place "
        "of jemalloc's test library; what they ask of mallctl is answered for any malloc",
    root="jemalloc",
    present=("test/integration/*.c", "test/integration/cpp/*.cpp"),
    tests=(
        Test("aligned_alloc", "test/integration/aligned_alloc.c"),
        Test("malloc", "test/integration/malloc.c"),
        Test("overflow", "test/integration/overflow.c"),
        Test("posix_memalign", "test/integration/posix_memalign.c"),
        Test("basic", "test/integration/cpp/basic.cpp"),
        Test("infallible_new_false", "test/integration/cpp/infallible_new_false.cpp"),
        Test("fork", "test/unit/fork.c"),
    ),
    left_out={
        "MALLOCX_ARENA": CONTROL, "mallocx": CONTROL, "rallocx": CONTROL, "sdallocx": CONTROL, "smallocx": CONTROL,
        "xallocx": CONTROL,
        "allocated": "mallctl: thread.allocated",
        "extent": "jemalloc's hooks for extents",
        "infallible_new_true": "jemalloc's option experimental_infallible_new",
        "slab_sizes": "jemalloc's option slab_sizes",
        "thread_arena": "mallctl: thread.arena",
        "thread_tcache_enabled": "mallctl: thread.tcache.enabled",
        "test/unit/* but fork": "functions of jemalloc's inside",
        "test/stress/*": "measurements, and mallocx",
    },
)
