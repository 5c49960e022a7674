# SPDX-License-Identifier: MIT
"""The stressors of stress-ng that call malloc much, with its own checks on."""

from outside.suite import Origin, Suite, Test


def stressor(name: str, operations: int, *options: str, workers: int = 2) -> Test:
    return Test(name, command=("stress-ng", f"--{name}", str(workers), f"--{name}-ops", str(operations), "--verify",
                               "--timeout", "60", "--oomable", "--metrics-brief", *options), timeout=180)


SUITE = Suite(
    name="stress-ng",
    origin=Origin("debian package", "stress-ng"),
    how="each stressor with --verify, two workers, for a number of operations",
    tests=(
        stressor("malloc", 50_000, "--malloc-pthreads", "4", "--malloc-touch", "--malloc-max", "4096"),
        stressor("bigheap", 20_000, "--bigheap-growth", "65536"),
        stressor("list", 200), stressor("tree", 3), stressor("tsearch", 20), stressor("hsearch", 50),
        stressor("lsearch", 5), stressor("skiplist", 50), stressor("qsort", 20), stressor("mergesort", 20),
        stressor("radixsort", 10), stressor("env", 200), stressor("zlib", 40), stressor("fork", 2_000),
        stressor("pthread", 2_000),
    ),
    left_out={
        "memrate, memcpy, memthrash, mmap, mremap, brk, shm, ...": "mmap's memory, not malloc's",
        "malloc-trim and such of other versions": "not in this version",
    },
)
