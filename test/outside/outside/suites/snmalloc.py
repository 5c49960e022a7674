# SPDX-License-Identifier: MIT
"""snmalloc's functional tests that go by its test library."""

import platform

from outside.suite import Origin, Suite, Test

INSIDE = "snmalloc's inside"
OWN = "brings snmalloc's malloc of its own"
SUITE = Suite(
    name="snmalloc",
    origin=Origin("crate", "snmalloc-sys", "0.7.6"),
    how="those of src/test/func that go by malloc, over a header of ours in place of snmalloc's test library",
    root="upstream/src",
    present=("test/func/*/*.cc",),
    includes=(".",),
    flags=("-DSNMALLOC_USE_WAIT_ON_ADDRESS=0", *(("-mcx16",) if platform.machine() == "x86_64" else ())),
    tests=(
        Test("malloc", "test/func/malloc/malloc.cc"),
        Test("memory", "memory-cases.cc", beside=("test/func/memory/memory.cc",), cases=True),
        Test("first_operation", "test/func/first_operation/first_operation.cc", timeout=300),
        Test("teardown", "test/func/teardown/teardown.cc", timeout=300),
    ),
    left_out={
        "memory/test_external_pointer and the like": "where the block of an inner pointer begins",
        "memory/test_remaining_bytes": "as test_external_pointer",
        "stats": "whether snmalloc is empty", "memory_usage": "snmalloc's statistics",
        "new": OWN, "jemalloc": OWN, "thread_alloc_external": OWN, "alloc1": OWN, "alloc2": OWN, "main": OWN,
        "multi_atexit": OWN, "multi_setspecific": OWN, "multi_threadatexit": OWN, "fls_teardown": "for Windows",
        "dll_teardown": "for Windows", "alloc": "for Windows", "touch": "for Windows",
        "func-memcpy": "snmalloc's memcpy", "protect_fork": "snmalloc's lock at fork",
        "corruption_detection": "snmalloc's checks", "miracle_ptr": "snmalloc's metadata for a client",
        **dict.fromkeys(("bits", "cheri", "client_meta", "domestication", "external_pagemap", "fixed_region",
                         "fixed_region_alloc", "fixed_region_remote_dealloc", "freelist_mpscq", "pagemap", "pool",
                         "redblack", "rounding", "sandbox", "seqset", "sizeclass"), INSIDE),
    },
)
