# SPDX-License-Identifier: MIT
"""The hardened build: what it reports, where it faults, what it promises (hardened.cpp, a process for each)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import NamedTuple

import pytest

PROGRAM = os.environ["COFFER_HARDENED_PROGRAM"]
STATIC = os.environ["COFFER_HARDENED_STATIC"]
HARDENED = os.environ["COFFER_HARDENED_LIBRARY"]
DEFAULT = os.environ["COFFER_DEFAULT_LIBRARY"]
SEGV, ABRT = -signal.SIGSEGV, -signal.SIGABRT

OVERRUN = "written to behind its end"
TOUCHED = "written to after it was freed"
FREE = "already free"
SMALL = [1, 8, 24, 25, 100, 1000, 4096, 20_000, 32_768]
LARGE = [70_000, 100_000, 1 << 20, 3_000_000]


class Run(NamedTuple):
    status: int
    out: str
    err: str

    def fact(self, name: str) -> str:
        match = re.search(rf"^{name} (\S+)$", self.out, re.M)
        assert match, self
        return match[1]

    @property
    def ended(self) -> bool:
        return self.status == 0 and self.out.endswith("end\n") and self.err == ""


def run(case: str, size: int, library: str = HARDENED, program: str = PROGRAM, conf: str = "") -> Run:
    preload = {"LD_PRELOAD": library} if program == PROGRAM else {}
    done = subprocess.run([program, case, str(size)], env={**preload, "COFFER_CONF": conf}, capture_output=True,
                          text=True, timeout=60)
    return Run(done.returncode, done.stdout, done.stderr)


def reported(done: Run, what: str) -> None:
    """By one line, which names the address and a size class, and then the signal."""
    assert done.status == ABRT, done
    match = re.fullmatch(r"coffer: (?:\w+ of|free block) (0x[0-9a-f]+): (.*?)(?: \(size class (\d+)\))?\n", done.err)
    assert match and re.fullmatch(what, match[2]), done
    assert int(match[1], 16) == int(done.fact("address"), 16), done
    assert match[3] or "size" in what or "0" in what, done


@pytest.mark.parametrize("size", SMALL)
@pytest.mark.parametrize(("case", "what"), [
    ("overflow", OVERRUN), ("overflow_by_zeros", OVERRUN), ("write_after_free", TOUCHED), ("double_free", FREE),
    ("late_double_free", FREE), ("free_by_stranger", FREE), ("realloc_of_freed", FREE),
    ("sized_delete", r"size \d+ was given, the block has \d+"),
])
def test_small_crimes_are_reported(case: str, what: str, size: int) -> None:
    if (case, size) == ("sized_delete", 1):
        size = 2  # size 0 is another
    reported(run(case, size), what)


@pytest.mark.parametrize("size", [600, 1000, 4096, 20_000])
def test_overflow_past_the_guard(size: int) -> None:
    """Of sizes whose class has more."""
    reported(run("overflow_far", size), OVERRUN)


@pytest.mark.parametrize("size", [24, 56, 248])
def test_underflow_meets_the_block_in_front(size: int) -> None:
    """Blocks that fill their class."""
    reported(run("underflow", size), OVERRUN)


@pytest.mark.parametrize("size", [40, 104, 1000])
def test_a_block_that_was_never_handed_out(size: int) -> None:
    done = run("never_handed_out", size)
    assert done.status == ABRT and re.search(f"{FREE}|not the start of a block", done.err), done


@pytest.mark.parametrize("size", LARGE)
def test_freed_large_blocks(size: int) -> None:
    reported(run("double_free", size), FREE)
    reported(run("realloc_of_freed", size), FREE)


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("case", ["behind_large", "before_large", "after_large", "behind_grown", "behind_aligned",
                                  "behind_reused", "before_reused"])
def test_fences_of_large_blocks(case: str, size: int) -> None:
    assert run(case, size).status == SEGV


def test_blocks_of_size_0() -> None:
    assert run("nothing", 0).status == SEGV
    done = run("nothing_twice", 0)
    assert done.status == ABRT and f": {FREE}\n" in done.err


@pytest.mark.parametrize(("case", "what"), [("checked_overflow", OVERRUN), ("checked_write_after_free", TOUCHED)])
@pytest.mark.parametrize("size", SMALL)
def test_coffer_check(case: str, what: str, size: int) -> None:
    done = run(case, size)
    assert done.status == 0 and int(done.fact("violations")) >= 1, done
    assert f"coffer: check: block {done.fact('address')}: {what}" in done.err, done


@pytest.mark.parametrize("case", ["exact_size", "zero_content", "changing_classes", "large_again", "children",
                                  "partitions"])
def test_promises(case: str) -> None:
    done = run(case, 100)
    assert done.ended, done


@pytest.mark.parametrize("conf", ["", "guard_sample:64K", "guard_sample:1M"])
def test_blocks_that_grow(conf: str) -> None:
    done = run("growth", 0, conf=conf)
    assert done.ended, done


def test_what_is_freed_rests() -> None:
    """One pair after the other: the block does not come back before the queue was full."""
    done = run("quarantine", 100)
    assert int(done.fact("soonest")) >= 100, done


def test_large_blocks_rest() -> None:
    """Sixteen others are freed before its pages are used again, by the same thread and where they are."""
    done = run("large_quarantine", 100_000)
    assert 15 <= int(done.fact("soonest")) < 100, done


@pytest.mark.parametrize("size", [16, 200])
def test_blocks_come_in_random_order(size: int) -> None:
    assert 35 <= int(run("order", size).fact("ascending")) <= 70
    assert int(run("order", size, DEFAULT).fact("ascending")) > 90


@pytest.mark.parametrize("size", [16, 100, 1000])
def test_free_blocks_are_taken_by_lot(size: int) -> None:
    """Not in the order in which they were freed, nor in the reverse."""
    assert int(run("reuse", size).fact("beside")) < 20
    assert int(run("reuse", size, DEFAULT).fact("beside")) > 50


@pytest.mark.parametrize("case", ["overflow", "write_after_free"])
def test_the_default_build_does_not_look(case: str) -> None:
    """So it is the hardened build that the other tests see."""
    assert run(case, 100, DEFAULT).ended


def test_the_default_build_is_as_it_was() -> None:
    assert int(run("quarantine", 100, DEFAULT).fact("soonest")) == 0
    assert run("nothing", 0, DEFAULT).ended
    assert run("behind_large", 100_000, DEFAULT).ended


@pytest.mark.parametrize(("case", "what"), [("overflow", OVERRUN), ("double_free", FREE)])
def test_the_static_library(case: str, what: str) -> None:
    reported(run(case, 100, program=STATIC), what)
    assert run("exact_size", 100, program=STATIC).ended
