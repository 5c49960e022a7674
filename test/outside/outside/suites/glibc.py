# SPDX-License-Identifier: MIT
"""glibc's own tests of malloc: which of them, and the headers that they are built with, are those of
conformance.glibc_suite."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

from outside.suite import Origin, Suite, Test

PLACE = Path(__file__).resolve().parents[3] / "conformance" / "glibc_suite"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("glibc_suite", PLACE / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONFORMANCE = load()


# Functions of glibc's own that these are about.
NEEDS = {
    "tst-mallinfo2": ("mallinfo2",),
    "tst-malloc-stats-cancellation": ("malloc_stats", "malloc_info"),
    "tst-malloc-tcache-leak": ("mallinfo",),
    "tst-malloc_info": ("malloc_info",),
    "tst-mallopt": ("mallopt",),
    "tst-mxfast": ("mallopt", "mallinfo"),
    "tst-pvalloc": ("pvalloc",),
    "tst-valloc": ("valloc",),
    "tst-trim1": ("malloc_trim",),
}


def find(root: Path) -> tuple[Test, ...]:
    """Those that the package has, each with what it includes from beside it."""
    tests = []
    for name in CONFORMANCE.PUBLIC:
        path = root / f"{name}.c"
        if path.is_file():
            beside = [other for other in re.findall(r'#include "(tst-[^"]+)"', path.read_text())
                      if (root / other).is_file()]
            tests.append(Test(name, path.name, beside=tuple(beside), timeout=90, needs=NEEDS.get(name, ())))
    return tuple(tests)


def prepare(work: Path) -> tuple[str, ...]:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    CONFORMANCE.prepare(work)
    return ("-iquote", str(PLACE), f"-I{work / 'include'}", f"-I{PLACE}")


SUITE = Suite(
    name="glibc",
    origin=Origin("debian source", "glibc"),
    how="as conformance.glibc_suite: the tests of malloc/, over headers of ours in place of glibc's support library",
    root="glibc-*/malloc",
    present=("tst-*.c", "mallocbug.c"),
    tests=(),
    left_out=dict(CONFORMANCE.INTERNAL),
    find=find,
    prepare=prepare,
)
