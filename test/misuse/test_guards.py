# SPDX-License-Identifier: MIT
"""Crimes against guarded blocks, one process each (guards.cpp), and what Coffer tells of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAM = os.environ["COFFER_GUARDS_PROGRAM"]
EVERY = "guard_sample:1"
NONE_YET = "guard_sample:1T"
HEAD = re.compile(
    r"coffer: guard: (?P<kind>[a-z ]+): (?P<call>\w+) at 0x(?P<address>[0-9a-f]+), offset (?P<offset>-?\d+) of a block "
    r"of (?P<size>\d+) bytes at 0x(?P<block>[0-9a-f]+)(?:, size (?P<given>\d+) was given)?"
)
SEGV, ABRT = -signal.SIGSEGV, -signal.SIGABRT


class Stack(NamedTuple):
    thread: int
    frames: list[int]
    lines: list[str]


class Run(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, int]:
        found = re.findall(r"^(?:function )?(\w+) (0x[0-9a-f]+)$", self.out, re.M)
        return {name: int(value, 16) for name, value in found}

    @property
    def heads(self) -> list[re.Match[str]]:
        return [match for match in map(HEAD.fullmatch, self.err.splitlines()) if match]

    @property
    def stacks(self) -> dict[str, Stack]:
        found: dict[str, Stack] = {}
        for line in self.err.splitlines():
            start = re.fullmatch(r"coffer: guard: (access|allocated|freed) by thread (\d+)", line)
            if start:
                last = found[start[1]] = Stack(int(start[2]), [], [])
            frame = re.fullmatch(r"coffer: guard:   0x([0-9a-f]+)(?: (.+)\+0x[0-9a-f]+)?", line)
            if frame:
                last.frames.append(int(frame[1], 16))
                last.lines.append(frame[2] or "")
        return found

    def stack_has(self, stack: str, function: str) -> bool:
        """One of the first frames lies in a function of the program: each has less than 512 bytes of code."""
        begin = self.facts[function]
        frames = self.stacks[stack]
        return any(begin <= frame < begin + 512 and Path(path).name == Path(PROGRAM).name
                   for frame, path in list(zip(frames.frames, frames.lines))[:2])


def run(*arguments: object, conf: str = EVERY, **more: object) -> Run:
    environment = {**os.environ, "COFFER_CONF": f"strict:true,{conf}"}
    done = subprocess.run([PROGRAM, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60,
                          check=False, **more)
    return Run(done.returncode, done.stdout, done.stderr)


def check_report(ran: Run, status: int, kind: str, call: str, offset: int, size: int, *stacks: str) -> None:
    assert ran.status == status, ran.out + ran.err
    assert "survived" not in ran.out
    assert len(ran.heads) == 1, ran.err
    head = ran.heads[0]
    said = (head["kind"], head["call"], int(head["offset"]), int(head["size"]))
    assert said == (kind, call, offset, size), ran.err
    assert int(head["block"], 16) == ran.facts["block"]
    assert int(head["address"], 16) == ran.facts["block"] + offset
    assert re.search(r"^coffer: guard: process \d+ \(guards\), thread \d+$", ran.err, re.M)
    assert set(ran.stacks) == {"access", *stacks}, ran.err
    if "allocated" in stacks and "sized" not in ran.out:
        assert ran.stack_has("allocated", "allocating"), ran.err
    if "freed" in stacks:
        assert ran.stack_has("freed", "freeing"), ran.err
    if call in ("read", "write"):
        assert ran.stack_has("access", "touching"), ran.err


def pages(size: int) -> int:
    page = os.sysconf("SC_PAGESIZE")
    return (size + page - 1) // page * page


SIZES = [1, 16, 100, 4096, 8200, 65_536, 100_000, 1 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_overflow(size: int) -> None:
    ran = run("touch", "right", size, "end", "write")
    slack = (16 - size % 16) % 16
    check_report(ran, SEGV, "overflow", "write", size + slack, size, "allocated")


@pytest.mark.parametrize("size", SIZES)
def test_underflow(size: int) -> None:
    check_report(run("touch", "left", size, -1, "read"), SEGV, "underflow", "read", -1, size, "allocated")


@pytest.mark.parametrize("size", [1, 100, 8200, 100_000])
def test_far_overflow(size: int) -> None:
    """To the guard behind a block at the begin of its pages."""
    ran = run("touch", "left", size, pages(size) + 8, "read")
    check_report(ran, SEGV, "overflow", "read", pages(size) + 8, size, "allocated")


@pytest.mark.parametrize("side, size, offset", [
    ("left", 100, 100), ("left", 100, 3000), ("left", 100_000, 100_000), ("right", 100, 100), ("right", 1, 15)])
def test_overflow_that_the_free_finds(side: str, size: int, offset: int) -> None:
    ran = run("touch", side, size, offset, "write", "free")
    check_report(ran, ABRT, "overflow", "free", offset, size, "allocated")
    assert ran.stack_has("access", "freeing")


@pytest.mark.parametrize("size, offset", [(100, -1), (16, -3000), (5000, -8)])
def test_underflow_that_the_free_finds(size: int, offset: int) -> None:
    ran = run("touch", "right", size, offset, "write", "free")
    check_report(ran, ABRT, "underflow", "free", offset, size, "allocated")


@pytest.mark.parametrize("size, offset", [(16, 0), (100, 99), (8200, 5000), (100_000, 99_999), (1 << 20, 1 << 19)])
@pytest.mark.parametrize("call", ["read", "write"])
def test_use_after_free(size: int, offset: int, call: str) -> None:
    ran = run("after_free", size, offset, call)
    check_report(ran, SEGV, "use after free", call, offset, size, "allocated", "freed")


def test_threads_are_named() -> None:
    ran = run("after_free", 100, 8, "write", "thread")
    check_report(ran, SEGV, "use after free", "write", 8, 100, "allocated", "freed")
    stacks = ran.stacks
    assert stacks["freed"].thread != stacks["access"].thread == stacks["allocated"].thread


@pytest.mark.parametrize("size", [16, 5000, 1 << 20])
@pytest.mark.parametrize("call", ["free", "thread", "realloc", "usable_size", "delete"])
def test_double_free(size: int, call: str) -> None:
    named = {"realloc": "realloc", "usable_size": "malloc_usable_size"}.get(call, "free")
    kind = "double free" if named == "free" else "use after free"
    check_report(run("twice", size, call), ABRT, kind, named, 0, size, "allocated", "freed")


@pytest.mark.parametrize("size, offset", [(100, 16), (100, 1), (8200, 4096), (1 << 20, 1 << 19), (100, 8192)])
@pytest.mark.parametrize("call", ["free", "realloc", "usable_size"])
def test_invalid_free(size: int, offset: int, call: str) -> None:
    named = "malloc_usable_size" if call == "usable_size" else call
    check_report(run("inside", size, offset, call), ABRT, "invalid free", named, offset, size, "allocated")


@pytest.mark.parametrize("size, given", [(100, 99), (100, 101), (100, 5000), (5000, 16)])
def test_wrong_size(size: int, given: int) -> None:
    ran = run("sized", size, given)
    assert (ran.status, len(ran.heads)) == (ABRT, 1), ran.err
    assert (ran.heads[0]["kind"], ran.heads[0]["given"]) == ("wrong size", str(given))


@pytest.mark.parametrize("call", ["read", "write"])
def test_size_zero(call: str) -> None:
    check_report(run("touch", "any", 0, 0, call), SEGV, "overflow", call, 0, 0, "allocated")


# The program's own handlers.


@pytest.mark.parametrize("kind, said", [
    ("info", r"handler info 11 {address} 1"), ("plain", "handler plain 11"), ("small", "handler small 11 0x[0-9a-f]+")])
@pytest.mark.parametrize("when", ["before", "after"])
def test_handler_gets_the_signal_afterwards(when: str, kind: str, said: str) -> None:
    ran = run("handler", when, kind)
    assert ran.status == 7 and len(ran.heads) == 1, ran.out + ran.err
    assert re.search(f"^{said.format(address=hex(ran.facts['block']))}$", ran.out, re.M), ran.out


@pytest.mark.parametrize("kind", ["default", "ignore"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_without_handler_the_kernel_ends_it(when: str, kind: str) -> None:
    ran = run("handler", when, kind)
    assert ran.status == SEGV and len(ran.heads) == 1, ran.err


def test_handler_that_jumps_goes_on() -> None:
    ran = run("handler", "before", "jumping")
    assert ran.status == 0 and "survived" in ran.out and len(ran.heads) == 3, ran.err


@pytest.mark.parametrize("when", ["before", "after", "last"])
def test_handler_that_calls_the_one_before_it(when: str) -> None:
    ran = run("handler", when, "chaining")
    assert "handler chaining 11" in ran.out and ran.status == SEGV and len(ran.heads) == 1, ran.err


def test_handler_after_the_last_guarded_block_has_the_signal_alone() -> None:
    ran = run("handler", "last", "plain")
    assert "handler plain 11" in ran.out and ran.status == 7 and not ran.heads, ran.err


@pytest.mark.parametrize("what", ["null", "sent"])
@pytest.mark.parametrize("kind, status", [("", SEGV), ("default", SEGV), ("plain", 7)])
def test_other_faults_are_as_without_us(what: str, kind: str, status: int) -> None:
    ran = run("other", what, *([kind] if kind else []))
    assert ran.status == status and ran.err == "", ran.err


def test_sent_signal_that_is_ignored() -> None:
    ran = run("other", "sent", "ignore")
    assert ran.status == 0 and "survived" in ran.out and ran.err == ""


# Where reports go.


def test_report_file(tmp_path: Path) -> None:
    file = tmp_path / "crash"
    first = run("after_free", 100, 0, "write", conf=f"{EVERY},crash_report:{file}")
    assert len(first.heads) == 1 and file.read_text() == first.err
    assert file.stat().st_mode & 0o777 == 0o600
    second = run("twice", 100, "free", conf=f"{EVERY},crash_report:{file}")
    assert len(second.heads) == 1 and file.read_text() == first.err + second.err


def test_report_file_with_stderr_closed(tmp_path: Path) -> None:
    file = tmp_path / "crash"
    ran = run("after_free", 100, 0, "write", conf=f"{EVERY},crash_report:{file}", preexec_fn=lambda: os.close(2))
    assert ran.status == SEGV and HEAD.fullmatch(file.read_text().splitlines()[0])


def test_report_file_that_cannot_be_written() -> None:
    ran = run("after_free", 100, 0, "write", conf=f"{EVERY},crash_report:/nowhere/crash")
    assert ran.status == SEGV and len(ran.heads) == 1


# What is no crime.


@pytest.mark.parametrize("conf", ["stats:false", NONE_YET])
def test_nothing_is_there_by_default(conf: str) -> None:
    ran = run("off", conf=conf)
    assert ran.status == 0 and "survived" in ran.out and ran.err == "", ran.err


@pytest.mark.parametrize("size, count", [(8, 20_000), (5000, 2000), (300_000, 300)])
def test_bounds(size: int, count: int) -> None:
    ran = run("bounds", size, count)
    assert ran.status == 0 and ran.err == "", ran.out + ran.err
    figures = re.search(r"guarded (\d+) mappings (\d+) live (\d+) held (\d+) bound (\d+)", ran.out)
    assert figures
    guarded, mappings, live, held, _ = map(int, figures.groups())
    # 512 live ones at most, each two mappings; all pages of 256 MiB at most.
    assert 300 <= guarded <= 512 if size < 100_000 else 200 <= guarded <= 300
    assert mappings < 2 * guarded + 100
    assert size * count <= live <= held


@pytest.mark.parametrize("case", ["calls", "threads", "limited"])
def test_programs_without_fault(case: str) -> None:
    ran = run(case)
    assert ran.status == 0 and ran.err == "" and "survived" in ran.out, ran.out + ran.err


def test_profile_and_guards_together(tmp_path: Path) -> None:
    for rate in ("1", "1K"):
        ran = run("threads", conf=f"guard_sample:1K,profile:true,profile_rate:{rate},profile_to:{tmp_path}/p")
        assert ran.status == 0 and ran.err == "", ran.err
    assert len(list(tmp_path.glob("p.*.pb.gz"))) == 2


def test_fork() -> None:
    ran = run("forked")
    assert ran.status == 0 and len(ran.heads) == 1, ran.out + ran.err
    child = re.search(r"^child (\d+)$", ran.out, re.M)
    assert child and f"process {child[1]} " in ran.err
    assert ran.stack_has("freed", "freeing") and ran.stack_has("access", "touching")
