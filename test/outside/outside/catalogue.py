# SPDX-License-Identifier: MIT
"""The suites, in the page's order, and the packages that were looked at and have nothing to run."""

from __future__ import annotations

from outside.suite import Suite
from outside.suites import (
    glibc,
    gperftools,
    jemalloc,
    libstdcxx,
    mimalloc,
    onetbb,
    python,
    rpmalloc,
    snmalloc,
    stress_ng,
)

SUITES: tuple[Suite, ...] = tuple(module.SUITE for module in (
    glibc, jemalloc, mimalloc, snmalloc, rpmalloc, gperftools, onetbb, stress_ng, libstdcxx, python))

WITHOUT = {
    "LTP": "Debian has no package of it",
    "Debian's sources of jemalloc and mimalloc": "older versions of the tests that the crates bring",
    "crate libmimalloc-sys": "it leaves mimalloc's test folder out; libmimalloc-sys2 has it",
    "crate libtcmalloc-sys": "of tcmalloc's tests one header, of Abseil's the helpers alone",
    "crate hardened-malloc-sys": "of the tests of hardened_malloc nothing; it has one of its own vendoring",
    "Debian's sources of musl, uclibc": "no tests: both projects keep them in another repository",
    "Debian's posixtestsuite": "mmap and mlock are in it, malloc is not",
    "Debian's libhugetlbfs": "its tests of malloc are of glibc's morecore hook",
    "Debian's rust-src": "library/alloc/tests needs the very compiler that it came with, and crates beside",
}


def left_out(suite: Suite) -> dict[str, str]:
    """Tests, and cases of tests, with the reason."""
    cases = {f"{test.name}/{case}": why for test in suite.tests for case, why in test.cases_left_out.items()}
    return {**suite.left_out, **cases}
