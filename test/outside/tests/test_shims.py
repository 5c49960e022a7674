# SPDX-License-Identifier: MIT
"""The headers that stand for the projects' own: a check that does not hold must fail the test, whatever the shim."""

from __future__ import annotations

from pathlib import Path

import pytest
from outside import building, running
from outside.catalogue import SUITES
from outside.suite import Origin, Suite, Test

PROGRAMS = {
    "jemalloc": ("t.c", '#include "test/jemalloc_test.h"\nTEST_BEGIN(first) { expect_d_eq(0, 0, "fine"); } TEST_END\n'
                        'TEST_BEGIN(second) { expect_ptr_null(%s, "a block of %%d", 5); } TEST_END\n'
                        "int main(void) { return test(first, second); }", "NULL", "(void*)1"),
    "gperftools": ("t.cc", '#include "base/logging.h"\nint main() { CHECK(true); CHECK_EQ(2, %s); }', "2", "3"),
    "mimalloc": ("t.c", '#include "mimalloc.h"\n#include "testhelper.h"\nint main(void) {\n'
                        'CHECK_BODY("one") { void* p = mi_malloc(9); result = (p != NULL) == %s; mi_free(p); };\n'
                        'CHECK("two", false);\nreturn print_test_summary(); }', "true", "false"),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("holds", [True, False])
def test_a_check_that_does_not_hold_fails(name: str, holds: bool, tmp_path: Path) -> None:
    file, text, good, bad = PROGRAMS[name]
    (tmp_path / file).write_text(text % (good if holds else bad))
    suite = Suite(name, Origin("directory", str(tmp_path)), "", (Test("t", file, cases=name == "mimalloc"),))
    first = next(building.build(suite, tmp_path, tmp_path / "programs"))
    assert first.name == ("t/one" if name == "mimalloc" else "t")
    outcome = running.run(first, {}, name, "glibc")
    assert outcome.outcome == "passed" if holds else outcome.is_failure, outcome


def test_a_case_that_is_not_there_fails(tmp_path: Path) -> None:
    file, text, good, _ = PROGRAMS["mimalloc"]
    (tmp_path / file).write_text(text % good)
    suite = Suite("mimalloc", Origin("directory", str(tmp_path)), "", (Test("t", file, cases=True),))
    first = next(building.build(suite, tmp_path, tmp_path / "programs"))
    first.environment["OUTSIDE_CASE"] = "three"
    assert running.run(first, {}, "mimalloc", "glibc").outcome == "failed"


def test_every_folder_of_shims_is_a_suites() -> None:
    assert {path.name for path in building.SHIMS.iterdir()} <= {suite.name for suite in SUITES}
