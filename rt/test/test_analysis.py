"""Static analysers have nothing to say about coffer-rt: cppcheck and GCC's. (clang-tidy is part of `make lint`.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from toolbox import INCLUDE, RT, SOURCES, STRICT, run


def test_gcc_analyzer(tmp_path: Path) -> None:
    if not run(["gcc", "-dumpfullversion"]).startswith("12."):
        pytest.skip("each version of the analyser sees something else; this one is Debian 12's")
    for source in SOURCES:
        run(["gcc", *STRICT, "-O2", "-fanalyzer", INCLUDE, "-c", source, "-o", tmp_path / "made.o"])


def test_cppcheck() -> None:
    for platform in ("unix32", "unix64"):
        run(["cppcheck", "--error-exitcode=1", "--enable=warning,performance,portability", "--std=c11", "--quiet",
             "--inline-suppr", f"--platform={platform}", f"--suppressions-list={RT / 'test/cppcheck.txt'}", INCLUDE,
             *SOURCES])
