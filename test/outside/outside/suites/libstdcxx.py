# SPDX-License-Identifier: MIT
"""libstdc++'s tests of operator new, allocators and memory resources, by the compiler of this machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from outside.suite import Origin, Suite, Test

FOLDERS = (
    "18_support/bad_alloc", "20_util/allocator", "20_util/allocator_traits", "20_util/memory_resource",
    "20_util/monotonic_buffer_resource", "20_util/polymorphic_allocator", "20_util/scoped_allocator",
    "20_util/shared_ptr/thread", "20_util/synchronized_pool_resource", "20_util/unsynchronized_pool_resource",
    "ext/bitmap_allocator", "ext/debug_allocator", "ext/malloc_allocator", "ext/mt_allocator", "ext/new_allocator",
    "ext/pool_allocator", "ext/throw_allocator",
)
SINGLE = "18_support/new_*.cc"


def compiler_major() -> str:
    try:
        done = subprocess.run(["c++", "-dumpversion"], capture_output=True, text=True, check=True)
    except OSError:
        return "12"
    return done.stdout.strip().partition(".")[0]


def standard(text: str) -> str | None:
    """What a test asks of the compiler, C++17 at least unless it says so; None where nothing is to be run."""
    if re.search(r"dg-do (compile|preprocess)|dg-error|dg-require-sharedlib", text) or not re.search(r"\bmain\b", text):
        return None
    said = re.search(r"std=gnu\+\+(\w+)", text)
    needed = re.search(r"target c\+\+(2\w)", text)
    return f"-std=gnu++{said[1] if said else needed[1] if needed else 17}"


def find(root: Path) -> tuple[Test, ...]:
    paths = {path for folder in FOLDERS for path in (root / folder).rglob("*.cc")} | set(root.glob(SINGLE))
    tests = []
    for path in sorted(paths):
        wanted = standard(path.read_text(errors="replace"))
        if wanted is not None:
            name = str(path.relative_to(root))
            tests.append(Test(name.removesuffix(".cc"), name, flags=(wanted,)))
    return tuple(tests)


SUITE = Suite(
    name="libstdc++",
    origin=Origin("debian package", f"gcc-{compiler_major()}-source", unpack=True, inner="usr/src/gcc-*/gcc-*.tar.*",
                  members="*/libstdc++-v3/testsuite/*"),
    how="the programs of testsuite/18_support, 20_util and ext that are about new, allocators and memory resources, "
        "with the suite's own headers",
    root="gcc-*/libstdc++-v3/testsuite",
    includes=("util",),
    tests=(),
    find=find,
    left_out={
        "tests that only compile, or that must not": "nothing runs",
        "tests that load a library of the suite's": "only its own makefile builds that",
        "the other folders": "what is tested there is no allocator",
    },
)
