# SPDX-License-Identifier: MIT
"""mimalloc's test programs. Those with cases are run a case at a time."""

from outside.suite import Origin, Suite, Test

INSIDE = "mimalloc's inside"
SUITE = Suite(
    name="mimalloc",
    origin=Origin("crate", "libmimalloc-sys2", "0.1.65"),
    how="the programs of version 3's test folder, over headers of ours in place of mimalloc.h; each case of test-api, "
        "test-api-fill and main-override.cpp in a process of its own",
    root="c_src/mimalloc3",
    present=("test/*.c", "test/*.cpp"),
    tests=(
        Test("test-api", "test/test-api.c", cases=True),
        Test("test-api-fill", "test/test-api-fill.c", cases=True),
        Test("main-override.cpp", "override-cases.cpp", beside=("test/main-override.cpp",), cases=True, timeout=300),
        Test("main-override.c", "test/main-override.c"),
        Test("test-fork", "test/test-fork.c", timeout=300),
        Test("test-stress", "test/test-stress.c", flags=("-DUSE_STD_MALLOC",), arguments=("16", "50", "20"),
             timeout=300),
        Test("test-stress with large objects", "test/test-stress.c", arguments=("4", "25", "10"), timeout=300,
             flags=("-DUSE_STD_MALLOC", "-DALLOW_LARGE=true")),
    ),
    left_out={
        "main": "mimalloc's heaps",
        "main-override-static": "as main-override.c, linked with mimalloc",
        "main-override-dep": "for Windows",
        "main-static": "mimalloc linked into two libraries", "main-static-dep": "as main-static",
        "test-arena": INSIDE, "test-bitmap": INSIDE, "test-qsbr": INSIDE, "test-pprof": "mimalloc's profiles",
        "test-profile": "mimalloc's profiles", "test-stress-heaps": "mimalloc's heaps",
        "test-stress-pprof": "mimalloc's profiles", "test-stress-subprocs": "mimalloc's subprocesses",
        "test-wrong": "misuse on purpose, for tools that find it",
        "main-override.cpp/test_perf to test_perf5, test_thread_leak": "measurements, some of which leak gigabytes",
        "main-override.cpp/fail_aslr": "ends by SIGSEGV on purpose",
    },
)
