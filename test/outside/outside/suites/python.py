# SPDX-License-Identifier: MIT
"""CPython's own tests of what stands on its allocator, which is told to be malloc."""

import sys

from outside.suite import Origin, Suite, Test

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
MODULES = ("test_array", "test_bytes", "test_ctypes", "test_fork1", "test_gc", "test_list",
           "test_memoryview", "test_mmap", "test_thread", "test_threading", "test_threading_local", "test_weakref")
PYTHON = f"/usr/bin/python{VERSION}"


def module(name: str) -> Test:
    return Test(name, command=(PYTHON, "-m", "test", "--timeout", "250", "-q"), arguments=(name,), timeout=300)


SUITE = Suite(
    name="CPython",
    origin=Origin("debian package", f"libpython{VERSION}-testsuite"),
    how=f"python{VERSION} -m test with PYTHONMALLOC=malloc, a module at a time",
    environment={"PYTHONMALLOC": "malloc"},
    tests=tuple(map(module, MODULES)),
    left_out={
        "test_capi": "not in Debian's package",
        "the other modules": "they say more about Python than about malloc; test/apps runs more of them",
    },
)
