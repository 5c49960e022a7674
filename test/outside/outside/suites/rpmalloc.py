# SPDX-License-Identifier: MIT
"""rpmalloc's test program, a case at a time."""

from outside.suite import Origin, Suite, Test


def case(name: str) -> Test:
    return Test(name, "cases.c", arguments=(name,), beside=("test/main.c", "test/thread.h", "test/test.h"),
                together=("test/thread.c",), timeout=300)


SUITE = Suite(
    name="rpmalloc",
    origin=Origin("crate", "rpmalloc-sys", "0.2.3"),
    how="the cases of its test program, over a header of ours in place of rpmalloc.h",
    root="rpmalloc",
    present=("test/*.c", "test/*.cc"),
    includes=("test",),
    tests=tuple(map(case, ("test_realloc", "test_superalign", "test_crossthread", "test_threaded", "test_threadspam"))),
    left_out={
        "test_alloc": "exact usable sizes of rpmalloc's classes",
        "test_first_class_heaps": "rpmalloc's heaps",
        "test_large_pages": "rpmalloc's configuration of page sizes",
        "test_error": "rpmalloc's callback for errors",
        "main-override": "exact usable sizes of rpmalloc's classes",
    },
)
