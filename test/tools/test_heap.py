# SPDX-License-Identifier: MIT
"""coffer leaks and coffer heap, of a program that is known: verdicts, trees of callers, moments, processes that run."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from coffer import lines, patience, places
from coffer.heap import owners, show, sites, stacks, taken
from coffer.profile import proto, symbols
from in_process import run

PROGRAM = Path(os.environ["COFFER_HEAP_PROGRAM"])
SOURCE = Path(__file__).with_name("heap_program.cpp")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all tests together."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def line_of(text: str) -> int:
    (found,) = [number for number, line in enumerate(SOURCE.read_text().split("\n"), 1) if text in line]
    return found


# --- coffer leaks. ---


def test_the_verdict_names_who_leaks(tmp_path: Path) -> None:
    done = run("leaks", "-o", tmp_path / "kept.pb.gz", "--", PROGRAM, "leak")
    program, verdict, besides, _, title, first, *callers = done.stdout.splitlines()
    malloc = line_of("return std::malloc(bytes);")
    assert program == "output has a buffer"
    assert verdict.startswith("7.4 MiB in 1,561 blocks never freed, all from seeded::session, heap_program.cpp:"
                              f"{malloc}, called by seeded::leak_session.")
    assert besides.startswith("Besides: ") and besides.endswith("kept by the C library."), "stdio's buffer"
    assert title == "never freed, by who allocated it" and "1,560 blocks  seeded::session" in first
    assert first.endswith("(inlined)")
    assert f"seeded::leak_session  heap_program.cpp:{line_of('static_cast<char*>(session(5000))')}" in callers[0]
    assert f"seeded::handle_request  heap_program.cpp:{line_of('leak_session(number);')}" in callers[1]
    # strdup is the C library's, and what it gives is its caller's.
    assert "1 block  seeded::leak" in done.stdout
    again = run("leaks", tmp_path / "kept.pb.gz").stdout.splitlines()
    assert again[0] == verdict and again[3:] == done.stdout.splitlines()[4:]
    assert proto.read(tmp_path / "kept.pb.gz").names


def test_a_program_that_frees_all_has_no_leaks(tmp_path: Path) -> None:
    lines_shown = run("leaks", "--exit-code", 9, "--collapsed", tmp_path / "stacks", "--", PROGRAM, "clean").stdout
    assert "dlerror" not in (tmp_path / "stacks").read_text(), "what is preloaded leaves nothing"
    lines_shown = lines_shown.splitlines()
    assert lines_shown[1] == "No leaks: the program freed all that it allocated."
    assert len(lines_shown) == 3 and "kept by the C library" in lines_shown[2]


def test_blocks_of_no_bytes_leak() -> None:
    shown = run("leaks", "--exit-code", 9, "--", PROGRAM, "leak_nothing", status=9).stdout.splitlines()
    line = line_of("g_last = std::malloc(0);")
    verdict = f"0 B in 50 blocks never freed, all from seeded::leak_nothing, heap_program.cpp:{line}"
    assert shown[0] == f"{verdict}, called by main."
    assert "0 B   0.0%      50 blocks  seeded::leak_nothing" in shown[-2]


def test_statuses() -> None:
    run("leaks", "--", PROGRAM, "status", status=7)
    run("heap", "--", PROGRAM, "status", status=7)
    run("leaks", "--exit-code", 9, "--", PROGRAM, "leak", status=9)
    assert "wrote no profile" in run("leaks", "--", PROGRAM, "killed", status=137).stderr


def test_a_sample_has_its_error() -> None:
    found = json.loads(run("leaks", "--rate", "64K", "--json", "--", PROGRAM, "leak").stdout.splitlines()[1])
    assert found["period"] == 65536 and 0.05 < found["error"] < 0.2
    assert found["bytes"] == pytest.approx(1560 * 5000, rel=6 * found["error"])
    assert found["sites"][0]["error"] >= found["error"]
    exact = json.loads(run("leaks", "--json", "--", PROGRAM, "leak").stdout.splitlines()[1])
    assert exact["error"] == 0 and exact["sites"][0]["bytes"] == 1560 * 5000
    assert exact["sites"][0]["callers"][0]["function"] == "seeded::leak_session"


def test_what_no_sample_stands_for_is_not_denied() -> None:
    shown = run("leaks", "--rate", "1T", "--", PROGRAM, "leak").stdout
    assert "No leaks: the program freed all that was sampled.\n" in shown and "--rate 1 sees every block." in shown
    shown = run("heap", "--rate", "1T", "--", PROGRAM, "leak").stdout
    assert "Nothing was sampled.\nNothing that was sampled is left at the end.\n" in shown
    assert [stacks.sees_every_block(period) for period in (1, 64, 16384)] == [True, False, False]


@pytest.mark.parametrize("tool", sorted(lines.TOOLS))
def test_every_tool_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} here")
    (tmp_path / "bin").mkdir()
    for name in (tool, "c++filt", "env", "sh"):
        if found := shutil.which(name):
            (tmp_path / "bin" / name).symlink_to(found)
    profile = tmp_path / "kept.pb.gz"
    run("leaks", "-o", profile, "--", PROGRAM, "leak")
    shutil.rmtree(tmp_path / "cache")
    shown = run("leaks", profile, env={**os.environ, "PATH": str(tmp_path / "bin")}).stdout
    assert f"seeded::session  heap_program.cpp:{line_of('return std::malloc(bytes);')}  (inlined)" in shown
    # From the cache: without any tool.
    (tmp_path / "bin" / tool).unlink()
    assert run("leaks", profile, env={**os.environ, "PATH": str(tmp_path / "bin")}).stdout == shown
    shutil.rmtree(tmp_path / "cache")
    without = run("leaks", profile, env={**os.environ, "PATH": str(tmp_path / "bin")}).stdout
    assert "seeded::leak_session" in without and "heap_program.cpp" not in without, "names come from the symbol table"


def test_it_says_why_there_are_no_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # the other one knows the lines by build-id
    program, profile = tmp_path / "prog", tmp_path / "kept.pb.gz"
    subprocess.run(["strip", "--strip-debug", "-o", program, PROGRAM], check=True)
    done = run("leaks", "-o", profile, "--", program, "leak").stdout
    assert "seeded::leak_session" in done and "No lines of prog: it has no debug information" in done
    shutil.copy(shutil.which("true"), program)
    symbols.symbols_of.cache_clear()  # for it is the same process here
    again = run("leaks", profile).stdout
    assert "seeded::leak_session" in again and "Built anew since it ran, so without lines: prog." in again


# --- coffer heap. ---


def test_peak_growth_and_end() -> None:
    done = run("heap", "--rate", 1, "--", PROGRAM, "peak").stdout.splitlines()
    assert "held at the highest moment" in done[0] and "% from seeded::fill, heap_program.cpp:" in done[0]
    assert done[1].startswith("Growing all the time: seeded::remember, heap_program.cpp:")
    assert done[2] == "Nothing is left at the end."
    assert "seeded::fill" in done[6] and "called by" not in done[6]
    grown = json.loads(run("heap", "--rate", 1, "--view", "growing", "--json", "--", PROGRAM, "peak").stdout)
    assert [site["function"] for site in grown["sites"]] == ["seeded::remember"] and grown["peak_ns"] > 0
    assert 0.5 * 960 * 2000 < grown["bytes"] <= 1.1 * 960 * 2000
    temporary = json.loads(run("heap", "--rate", 1, "--view", "temporary", "--json", "--", PROGRAM, "clean").stdout
                           .splitlines()[1])
    assert temporary["sites"][0]["function"] == "seeded::temporary" and temporary["blocks"] >= 200
    assert 0 < temporary["peak_ns"] < 600e9
    assert temporary["bytes"] == pytest.approx(200 * 100_001, rel=0.01)


def test_the_process_is_shown_that_has_most_of_what_is_asked_for() -> None:
    """A child with a higher peak, which freed all, hides no leak of the program."""
    types = [f"{kind}_{unit}" for kind in ("alloc", "inuse", "peak") for unit in ("objects", "space")]
    leaker, eater = (taken.Taken(end=proto.Profile(types=types, samples=[([], values)]), process=number)
                     for number, values in ((1, [9, 900, 1, 500, 1, 500]), (2, [5, 2000, 0, 0, 2, 1500])))
    both = {1: leaker, 2: eater}
    assert taken.choose(both, 2, "inuse_space") is leaker
    assert taken.choose(both, 1, "peak_space") is eater and taken.choose(both, 1, "alloc_space") is eater
    done = run("leaks", "--exit-code", 7, "--", "sh", "-c", f"'{PROGRAM}' spike; '{PROGRAM}' leak", status=7)
    assert "seeded::leak_session" in done.stdout


def test_a_peak_of_a_moment_is_seen() -> None:
    """40 MB that are freed at once, while 20,000 stacks and blocks make each profile long to write."""
    verdict = run("heap", "--", PROGRAM, "spike").stdout.splitlines()[0]
    size, _ = re.match(r"([\d.]+) MiB \(±(\d+)%\)", verdict).groups()
    assert float(size) == pytest.approx(40e6 / 2**20, rel=0.25)
    assert "held at the highest moment, " in verdict and "% from seeded::spike, heap_program.cpp:" in verdict


def test_a_killed_program_shows_its_last_moment() -> None:
    done = run("heap", "--rate", 1, "--", PROGRAM, "killed", status=137).stdout
    assert "1,561 blocks" in done.splitlines()[0] and "its last moment that was seen" in done


def test_a_process_that_goes_on_is_told_of(tmp_path: Path) -> None:
    """As daemons do, whose first process ends at once; by _exit, mostly."""
    for command, status in (("leaks", 0), ("heap", 137)):
        last = f"exec '{PROGRAM}' clean" if status == 0 else "kill -9 $$"
        done = run(command, "--", "sh", "-c", f"sleep 60 >&- 2>&- & echo $! > '{tmp_path}/pid'; {last}", status=status)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert "1 of the processes that it started went on" in done.stdout + done.stderr


def test_a_profile_that_is_not_whole_is_none(tmp_path: Path) -> None:
    run("leaks", "-o", tmp_path / "coffer.7.moment.1.pb.gz", "--", PROGRAM, "leak")
    content = (tmp_path / "coffer.7.moment.1.pb.gz").read_bytes()
    for name in ("7.1", "7.moment.2", "8.1"):
        (tmp_path / f"coffer.{name}.pb.gz").write_bytes(content[:len(content) // 2])
    (found,) = taken.read_folder(tmp_path).values()
    assert found.process == 7 and found.end is None and len(found.moments) == 1


def test_python_keeps_its_own_apart() -> None:
    script = "import ctypes, gc; kept = [bytes(1000) for _ in range(1000)]"
    done = run("leaks", "--", sys.executable, "-c", script).stdout
    assert "by Python itself." in done and "_PyObject" not in done.splitlines()[0]


def test_what_grew_between_two_profiles(tmp_path: Path) -> None:
    before, after = tmp_path / "before.pb.gz", tmp_path / "after.pb.gz"
    run("leaks", "-o", before, "--", PROGRAM, "clean")
    run("leaks", "-o", after, "--", PROGRAM, "leak")
    done = run("heap", "--diff", before, after).stdout.splitlines()
    assert done[0].startswith("7.4 MiB in 1,561 blocks more, all from seeded::session, heap_program.cpp:")
    assert done[1] == "Nothing shrank." and "what grew" in "".join(done)
    back = run("heap", "--diff", after, before).stdout.splitlines()
    assert back[0] == "Nothing grew." and back[1].startswith("7.4 MiB in 1,561 blocks less, all from seeded::session")
    same = json.loads(run("heap", "--diff", "--json", after, after).stdout)
    assert same["bytes"] == 0 and same["sites"] == [] and same["verdicts"] == ["Nothing grew.", "Nothing shrank."]
    assert "two profiles" in run("heap", "--diff", after, status=1).stderr


def test_what_grew_of_a_view(tmp_path: Path) -> None:
    before, after = tmp_path / "before.pb.gz", tmp_path / "after.pb.gz"
    run("leaks", "-o", before, "--", PROGRAM, "clean")
    run("leaks", "-o", after, "--", PROGRAM, "peak")
    assert run("heap", "--diff", before, after).stdout.startswith("Nothing grew.")
    peak = json.loads(run("heap", "--diff", "--view", "peak", "--json", before, after).stdout)
    assert "more at the highest moment" in peak["verdicts"][0] and peak["sites"][0]["function"] == "seeded::fill"
    freed = json.loads(run("heap", "--diff", "--view", "temporary", "--json", after, before).stdout)
    assert freed["sites"][0]["function"] == "seeded::temporary"
    assert "three profiles" in run("heap", "--diff", "--view", "growing", before, after, status=1).stderr
    proto.write(before, without_peak(proto.read(before)))
    assert "older version" in run("heap", "--diff", "--view", "peak", before, after, status=1).stderr


def test_files_are_written_before_anything_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads the text may stop: coffer heap ... | head -1."""
    def stopped(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(show, "show", stopped)
    for number, command in enumerate((["leaks"], ["heap"], ["heap", "--diff"])):
        files = [tmp_path / f"{number}.{end}" for end in ("pb.gz", "html", "json", "txt")]
        options = [one for pair in zip(("-o", "--html", "--speedscope", "--collapsed"), files) for one in pair]
        profiles = [tmp_path / "0.pb.gz"] * 2 if "--diff" in command else ["--", PROGRAM, "leak"]
        run(*command, *options, *profiles)
        assert all(one.stat().st_size for one in files[:3]), command


# --- What is wrong. ---


def without_peak(profile: proto.Profile) -> bytes:
    """As versions before 0.3 wrote it."""
    types, result = 0, b""
    for kind, value in proto.fields(profile.content):
        if kind == proto.SAMPLE_TYPE:
            types += 1
            if types > 4:
                continue
        if kind == proto.SAMPLE:
            have = proto.plain(value)
            values = b"".join(map(proto.varint, proto.packed(have[2])[:4]))
            value = proto.chunk(1, have.get(1, b"")) + proto.chunk(2, values)
        if kind != 13:
            result += proto.chunk(kind, value) if isinstance(value, bytes) else proto.number(kind, value)
    return result


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "no.pb.gz").write_bytes(b"nothing")
    (tmp_path / "cut.pb.gz").write_bytes(gzip.compress(b"\x0a\xff"))
    for name in ("no", "cut"):
        assert "not a heap profile" in run("leaks", tmp_path / f"{name}.pb.gz", status=1).stderr
    assert "No such file" in run("heap", tmp_path / "missing.pb.gz", status=1).stderr
    assert "No such file" in run("heap", "--", tmp_path / "missing", status=127).stderr
    assert "one of them is needed" in run("leaks", status=1).stderr
    assert "--pid" in run("leaks", "4321", status=1).stderr
    assert "--rate" in run("leaks", "--rate", "fast", "--", "true", status=1).stderr
    assert "no such directory" in run("leaks", "-o", "/nonexistent/x", "--", "true", status=1).stderr
    run("leaks", "-o", tmp_path / "one.pb.gz", "--", PROGRAM, "leak")
    proto.write(tmp_path / "old.pb.gz", without_peak(proto.read(tmp_path / "one.pb.gz")))
    assert "older version" in run("heap", "--view", "peak", tmp_path / "old.pb.gz", status=1).stderr
    assert "held at" not in run("heap", tmp_path / "old.pb.gz").stdout
    assert "held at the highest moment" in run("heap", tmp_path / "one.pb.gz").stdout
    assert "three moments" in run("heap", "--view", "growing", tmp_path / "one.pb.gz", status=1).stderr


@pytest.mark.parametrize("count, expected", [(1, 1), (30, 30), (400, 41)])
def test_of_many_moments_some_are_read(tmp_path: Path, count: int, expected: int) -> None:
    paths = [tmp_path / f"{number:04}" for number in range(count)]
    for number, path in enumerate(paths):
        path.touch()
        os.utime(path, (1000 + number, 1000 + number))
    found = taken.thinned(paths)
    assert len(found) == pytest.approx(expected, abs=1) and found[0] == paths[0] and found[-1] == paths[-1]
    gaps = [later.stat().st_mtime - sooner.stat().st_mtime for sooner, later in zip(found, found[1:])]
    assert max(gaps, default=0) <= 1 + count / expected


def test_elfutils_is_asked_where_debuginfod_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in lines.TOOLS:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    assert lines.tool() == "llvm-symbolizer"
    monkeypatch.setenv("DEBUGINFOD_URLS", "https://debuginfod.example")
    assert lines.tool() == "eu-addr2line"
    (tmp_path / "eu-addr2line").unlink()
    assert lines.tool() == "llvm-symbolizer"


@pytest.mark.parametrize("seconds, shown", [(0.0, True), (60.0, False)])
def test_progress_is_shown_on_a_terminal_of_what_takes_long(monkeypatch: pytest.MonkeyPatch, seconds: float,
                                                            shown: bool) -> None:
    reader, terminal = os.openpty()
    monkeypatch.setattr(patience, "SECONDS", seconds)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with open(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with patience.bar("names of functions", 2) as step:
            time.sleep(0.01)
            step("libfirst.so")
            step("libsecond.so")
        stream.flush()
        os.set_blocking(reader, False)
        written = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(reader, 1 << 16):
                written += part
    os.close(reader)
    assert (b"libsecond.so" in written) == shown


# --- Units. ---


def place(function: str, module: str = "prog") -> stacks.Place:
    return stacks.Place(function, "", 0, module)


@pytest.mark.parametrize("places_of, expected", [
    (["make", "main"], (owners.PROGRAM, 0)),
    ([("operator new", "libstdc++.so.6"), "make", "main"], (owners.PROGRAM, 1)),
    (["std::vector<int>::push_back", "make"], (owners.PROGRAM, 1)),
    ([("_IO_file_doallocate", "libc.so.6"), ("puts", "libc.so.6"), "main"], (owners.RUNTIME, 2)),
    ([("__GI___strdup", "libc.so.6"), "make", "main"], (owners.PROGRAM, 1)),
    ([("_IO_new_fopen64", "libc.so.6"), "make"], (owners.PROGRAM, 1)),
    ([("fgets", "libc.so.6"), "make"], (owners.RUNTIME, 1)),
    ([("libc.so.6+0x1234", "libc.so.6"), "make"], (owners.PROGRAM, 1)),
    ([("init", "libstdc++.so.6"), ("call_init", "ld-linux-x86-64.so.2"), ("_start", "prog")], (owners.RUNTIME, 0)),
    (["compare", ("qsort", "libc.so.6"), "main"], (owners.PROGRAM, 0)),
    ([("allocate_stack", "libc.so.6"), ("pthread_create", "libc.so.6"),
      ("std::thread::_M_start_thread", "libstdc++.so.6"), "main"], (owners.RUNTIME, 3)),
    ([("fopen64", "libc.so.6"), ("std::basic_file_stdio::open", "libstdc++.so.6"), "load"], (owners.PROGRAM, 2)),
    ([("list_resize", "python3.11"), ("grow", "ext.so"), ("_PyEval", "python3.11")], (owners.PROGRAM, 1)),
    ([("list_resize", "python3.11"), ("_PyEval", "python3.11"), ("main", "python3.11")], (owners.INTERPRETER, 0)),
    (["alloc::raw_vec::RawVec<T,A>::grow", "<T as alloc::slice::ConvertVec>::to_vec", "store"], (owners.PROGRAM, 2)),
    (["<alloc::raw_vec::RawVecInner>::try_allocate_in", "<u8 as alloc::vec::SpecFromElem>::from_elem", "store"],
     (owners.PROGRAM, 2)),
    (["<prog::Shape as core::clone::Clone>::clone", "store"], (owners.PROGRAM, 0)),
    # What the program gave is a part of a function of the library's templates.
    ([("operator new", "libcoffer.so.0"), "std::vector<int>::push_back",
      "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run",
      ("execute_native_thread_routine", "libstdc++.so.6"), ("start_thread", "libc.so.6")], (owners.PROGRAM, 2)),
    ([("operator new", "libstdc++.so.6"), ("std::locale::_Impl<x>::install", "libstdc++.so.6"),
      ("start_thread", "libc.so.6")], (owners.RUNTIME, 0)),
    (["std::rt::lang_start::<()>", ("__libc_start_main", "libc.so.6")], (owners.RUNTIME, 0)),
    (["xmalloc", "store"], (owners.PROGRAM, 1)),
    (["g_malloc", "g_strdup", "store"], (owners.PROGRAM, 2)),
    (["ztrymalloc_usable_internal", "zmalloc", "store"], (owners.PROGRAM, 2)),
    (["lib.so+0x12", "sqlite3Malloc", "store"], (owners.PROGRAM, 2)),
    (["xml_reallocate", "store"], (owners.PROGRAM, 0)),
    ([], (owners.PROGRAM, 0)),
])
def test_whose_a_block_is(places_of: list, expected: tuple[str, int]) -> None:
    found = [place(*one) if isinstance(one, tuple) else place(one) for one in places_of]
    assert owners.owner(found, "prog") == expected


@pytest.mark.parametrize("functions, expected", [
    (["_PyObject_Malloc", "bytes_repeat", "_PyEval_EvalFrameDefault", "main"], 1),
    (["_PyMem_RawRealloc", "PyMem_Realloc", "list_resize", "app1"], 2),
    (["_PyObject_GC_Alloc", "PyType_GenericAlloc", "type_call"], 2),
    (["_PyObject_Malloc", "new_keys_object", "Py_InitializeFromConfig"], None),
    (["_PyObject_Malloc", "bytes_repeat", "import_find_and_load"], None),
])
def test_what_an_unnamed_python_allocates_for(functions: list[str], expected: int | None) -> None:
    assert owners.unnamed_python([place(one, "python3.10") for one in functions]) == expected


def test_an_interpreter_without_named_functions_is_the_program() -> None:
    """Of a program that has an interpreter in it, it stays the interpreter's."""
    for program, group in (("python3.10", owners.PROGRAM), ("gdb", owners.INTERPRETER)):
        profile = proto.Profile(types=["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"],
                                samples=[([1, 2], [3, 300, 2, 200])], period=1,
                                mappings={1: proto.Mapping(0, 10, 0, f"/opt/{program}", ""),
                                          2: proto.Mapping(10, 20, 0, "/opt/libpython3.10.so", "")},
                                locations={1: (2, 11), 2: (2, 12)})
        heap = stacks.named([profile])[0]
        assert [(one.group, one.live.bytes) for one in heap.stacks] == [(group, 200)]
        assert heap.is_unnamed_python == (group == owners.PROGRAM)
        assert any("No Python functions" in note for note in show.notes_on(heap, [])) == heap.is_unnamed_python


@pytest.mark.parametrize("name, expected", [
    ("alloc::vec::Vec<T,A>::push::h0123456789abcdef", "alloc::vec::Vec<T,A>::push"),
    ("<alloc[fdfd2bd8633a6659]::raw_vec::RawVecInner>::grow", "<alloc::raw_vec::RawVecInner>::grow"),
    ("_$LT$u8$u20$as$u20$alloc..vec..Spec$GT$::from_elem", "<u8 as alloc::vec::Spec>::from_elem"),
    ("leak(int) [clone .cold]", "leak"),
    ("seeded::leak(int, char const*)", "seeded::leak"),
    ("serve.constprop.0", "serve"),
])
def test_names_are_what_the_program_calls_them(name: str, expected: str) -> None:
    assert stacks.clean(name) == expected


def moments(*values: int, function: str = "f") -> list[stacks.Heap]:
    found = []
    for index, value in enumerate(values):
        figure = stacks.Sum(max(1, value), value, max(1, value))
        stack = stacks.Stack((place(function),), owners.PROGRAM, 0, figure, figure)
        found.append(stacks.Heap("prog", 1, index * 10**9, 1, [stack]))
    return found


@pytest.mark.parametrize("values, grows", [
    ((0, 100, 200, 300, 400), True),
    ((0, 100, 90, 250, 400), True),
    ((0, 400, 400, 400, 400), False),  # filled once
    ((0, 300, 100, 350, 400), False),  # breathes
    ((400, 300, 200, 100), False),
    ((0, 400), False),
])
def test_what_grows(values: tuple[int, ...], grows: bool) -> None:
    found = sites.growing(moments(*(value * 1024 for value in values)))
    assert bool(found) == grows
    if grows:
        assert found[0].bytes == 400 * 1024 and found[0].per_second == pytest.approx(400 * 1024 / (len(values) - 1))


@pytest.mark.parametrize("values, last", [
    ((0, 100, 200, 300, 10), 3),  # the last moment fell into its end
    ((0, 100, 200, 300, 400), 4),
    ((0, 100, 200, 300, 400, 500, 300, 0), 5),
    ((0, 400, 300, 200, 100), 0),  # it fell for most of its life
    ((0, 100, 0, 100, 0), 0),
])
def test_the_end_of_a_program_does_not_hide_its_growth(values: tuple[int, ...], last: int) -> None:
    found = sites.growing(moments(*(value * 1024 for value in values)), is_end=True)
    assert [one.last for one in found] == ([last] if last else [])
    if last and last + 1 < len(values):
        assert not sites.growing(moments(*(value * 1024 for value in values))), "a process that goes on has freed it"


@pytest.mark.parametrize("function, told", [("f", "f, prog"), ("prog+0x12", "prog+0x12")])
def test_what_grows_is_told_by_what_is_known(function: str, told: str) -> None:
    found = sites.growing(moments(0, 1 << 20, 2 << 20, function=function))
    assert show.growth_sentence(found) == f"Growing all the time: {told}: by 2.0 MiB, 1.0 MiB a second."


def test_what_may_be_chance_does_not_grow() -> None:
    found = moments(*(value * 1024 for value in (0, 100, 200, 300, 400)))
    for samples, grows in ((4, False), (20, True)):
        figure = stacks.Sum(1000, 400 * 1024, samples)
        found[-1].stacks = [stacks.Stack((place("f"),), owners.PROGRAM, 0, figure, figure)]
        assert bool(sites.growing(found)) == grows


def test_a_file_with_debug_information_of_a_part_has_some() -> None:
    """As Rust's programs: their main, in C, has none."""
    figure = stacks.Sum(1, 100, 1)
    known = stacks.Place("store", "src/main.rs", 3, "prog")
    for places_of, notes in (([place("main")], 1), ([known], 0), ([place("main"), known], 0)):
        found = [stacks.Stack((one,), owners.PROGRAM, 0, figure, figure) for one in places_of]
        heap = stacks.Heap("prog", 1, 0, 0, found)
        assert len(show.notes_on(heap, sites.sites(heap, sites.LIVE))) == notes


def test_blocks_without_a_stack_have_no_name_to_look_for() -> None:
    stack = stacks.Stack((sites.NO_STACK,), "", 0, stacks.Sum(1, 100, 1), stacks.Sum(1, 100, 1))
    heap = stacks.Heap("prog", 1, 0, 0, [stack])
    assert show.notes_on(heap, sites.sites(heap, sites.LIVE)) == []


def test_the_error_is_that_of_so_many_samples() -> None:
    # 1,000 blocks of 100 bytes at a mean of 10,000: ten samples, so a third.
    figure = stacks.Sum(1000, 100_000, stacks.samples_behind(1000, 100_000, 10_000))
    assert stacks.error_of(figure) == pytest.approx(0.317, abs=0.002)
    assert stacks.error_of(stacks.Sum(1000, 100_000, stacks.samples_behind(1000, 100_000, 1))) == 0
