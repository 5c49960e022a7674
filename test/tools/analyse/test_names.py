# SPDX-License-Identifier: MIT
"""Call sites of C++ programs, whose names can have thousands of characters: no figure is lost for them (issue 16)."""

from __future__ import annotations

import json
import os
import pty
import re
from pathlib import Path

import pytest
from coffer import places
from coffer.trace.symbols import Frame, Symbols, bare, middle, without_arguments
from conftest import COMMAND, coffer

FOLDER = places.build_dir() / "test" / "tools" / "analyse"


@pytest.fixture(scope="module", params=["O0", "O2"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "cpp.trace"
    coffer("record", "-q", "--stacks", "unwind", "-o", path, "--", FOLDER / f"trace_long_names_{request.param}")
    return path


def on_a_terminal(columns: int, *arguments: object) -> list[str]:
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(COLUMNS=str(columns), TERM="xterm")
        os.execv(COMMAND, ["coffer", *map(str, arguments)])
    text = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    assert os.waitpid(process, 0)[1] == 0, text
    return [re.sub("\x1b\\[[0-9;]*m", "", line) for line in text.decode().splitlines()]


def sites(trace: Path) -> dict[int, dict]:
    survey = json.loads(coffer("trace", "info", trace, "--json"))["survey"]
    return {site["stack"]: site for site in survey["sites"]}


def figures(lines: list[str], columns: int) -> dict[int, list[str]]:
    """By stack, of the table of call sites; none is wider than the terminal."""
    begin = next(at for at, line in enumerate(lines) if line.startswith("Call sites"))
    assert all(len(line) <= columns for line in lines[begin:])
    found = {}
    for line in lines[begin:]:
        cells = re.split(r"  +", line.strip())
        if cells[0].isdecimal():
            found[int(cells[0])] = cells[1:]
    return found


def check(shown: dict[int, list[str]], known: dict[int, dict]) -> None:
    assert len(shown) == min(15, len(known)) >= 8
    for stack, cells in shown.items():
        assert cells[0] == str(known[stack]["allocations"])
        for cell in (*cells[1:3], cells[4]):
            assert re.fullmatch(r"\d+ B|[\d.]+ [KM]iB", cell), cells
        assert re.fullmatch(r"never freed|< 5 ms|[\d.]+ (ns|µs|ms|s)", cells[3]), cells
        assert (cells[3] == "never freed") == (known[stack]["frees"] == 0)


def test_the_figures_are_there(trace: Path) -> None:
    known = sites(trace)
    piped = coffer("trace", "info", trace)
    check(figures(piped.splitlines(), 160), known)
    check(figures(on_a_terminal(80, "trace", "info", trace), 80), known)
    assert "never freed" in piped and not re.search(r"\b0 ns", piped)


def test_the_name_is_that_of_the_program(trace: Path) -> None:
    piped = coffer("trace", "info", trace)
    names = re.findall(r"  ([^ ]+) \(long_names\.cpp:\d+\)", piped)
    # Not of the C++ library, nor of the allocator that the program has given to its list.
    assert len(names) >= 6 and not any(name.startswith(("std::", "operator")) for name in names)
    assert any(name.endswith("Registry<…>::remember") for name in names)
    assert any(name.endswith("::from_a_pool") for name in names) and "main" in names
    assert not re.search(r"  std::|::allocate \(", piped)
    narrow = " ".join(on_a_terminal(80, "trace", "info", trace))
    assert "<…>::remember (long_names.cpp:" in narrow and "…" in narrow


@pytest.mark.parametrize("columns", [80, 160])
def test_frag(trace: Path, columns: int) -> None:
    lines = on_a_terminal(columns, "trace", "frag", trace)
    begin = next(at for at, line in enumerate(lines) if line.startswith("Who pins it"))
    end = next(at for at, line in enumerate(lines) if line.startswith("By class"))
    assert all(len(line) <= columns for line in lines[begin:end])
    shown = [line.split() for line in lines[begin:end] if re.match(r" *[\d.]+ (B|[KM]iB) ", line)]
    assert len(shown) >= 4 and all(line[2].endswith("%") for line in shown)
    assert any("<…>::remember (long_names.cpp:" in line for line in lines[begin:end])


def test_a_stack_is_shown_whole(trace: Path) -> None:
    text = coffer("trace", "info", trace)
    number = int(re.search(r"^ *(\d+) .*remember", text, re.MULTILINE)[1])
    lines = coffer("trace", "stack", trace, number).splitlines()
    assert lines[0] == f"stack {number}, innermost first"
    name = next(line for line in lines if "with_a_long_namespace::Registry<" in line and "remember" in line)
    assert len(name) > 500 and "…" not in "".join(lines)
    assert any("std::" in line for line in lines[1:lines.index(name)]), "what info leaves out"
    assert any(re.search(r" main \(.*long_names\.cpp:\d+\)$", line) for line in lines)
    both = coffer("trace", "stack", trace, number, 1)
    assert both.startswith("\n".join(lines)) and "stack 1, innermost first" in both
    assert "no stack 999999" in coffer("trace", "stack", trace, 999999, status=1)
    assert "Invalid value for 'N" in coffer("trace", "stack", trace, "x", status=2)


def test_the_report_has_the_figures(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    coffer("report", trace, "-o", page, "-a", "none")
    text = page.read_text()
    assert r"Registry&lt;\u2026&gt;::remember, long_names.cpp:" in text  # as JSON has it
    assert max(map(len, re.findall(r"<summary>([^<]*)</summary>", text))) < 150


def test_names() -> None:
    table = "std::map<int, std::vector<int> >"
    assert bare(f"{table} app::make<{table} (*)(int)>({table} const&, void (*)(int)) const") == (
        f"app::make<{table} >")
    assert bare("bool app::operator< <int>(app::X<int> const&)") == "app::operator< <int>"
    assert bare("app::X<(app::Kind)3>::operator std::string() const &") == "app::X<3>::operator std::string"
    assert bare("void app::run<int>(int) [clone .cold]") == "app::run<int>"
    assert bare("operator new[](unsigned long)") == "operator new[]"
    assert bare("std::invoke<void, void (*)(int), int>(void (*)(int), int)") == "std::invoke<void, void, int>"
    assert bare("operator()<int>") == "operator()<int>"
    assert bare("app::X<int>::operator()(int) const") == "app::X<int>::operator()"
    assert bare("main::{lambda(auto:1)#1}::operator()<int>(int) const") == "main::{lambda#1}::operator()<int>"
    assert without_arguments("a<b>::operator()<c>") == "a<…>::operator()<…>"
    assert without_arguments("a::b<c<d>, e>::f<g> < h<i> (x.cpp:1)") == "a::b<…>::f<…> < h<…> (x.cpp:1)"
    assert without_arguments("a<b>::operator<<") == "a<…>::operator<<" and without_arguments("a->b<c") == "a->b<c"
    for room in range(20, 60):
        cut = middle("a::long_name_that_is_too_long_for_it<with, arguments>::find (file.cpp:12)", room)
        assert len(cut) <= room and cut.startswith("a::") and cut.endswith("(file.cpp:12)"[-room // 3:])


def test_who_allocates() -> None:
    def first(*stack: list[str] | tuple[str, str]) -> str:
        """Of frames, each a list of what is inlined there, or of a module and a function."""
        frames = {at: Frame(one[0], at, ((one[1], "??:0"),)) if isinstance(one, tuple)
                  else Frame("program", at, tuple((name, f"/x/{name[0]}.cpp:{at}") for name in one))
                  for at, one in enumerate(stack)}
        symbols = Symbols({"stacks": {"1": list(frames)}, "modules": []})
        symbols.frames = frames
        return symbols.name(1)

    inlined = ["operator new(unsigned long)", "std::allocator<int>::allocate(unsigned long)", "run()"]
    assert first(inlined, ["main"]) == "run (r.cpp:0)"
    assert first(["std::string::string(char const*)"], ["std::vector<X>::push_back()", "keep()", "serve()"]) == (
        "keep < serve (k.cpp:1)")
    assert first(("libcoffer.so", "malloc"), ("libstdc++.so.6", ""), ["main"]) == "main (m.cpp:2)"
    assert first(["app::Pool<int>::allocate()"], ["std::list<int>::push_back()"], ["main"]) == "main (m.cpp:2)"
    # Not between the program and the C++ library: a function of the program that happens to be called so.
    assert first(["app::Pool<int>::allocate()"], ["main"]) == "app::Pool<int>::allocate (a.cpp:0)"
    assert first(["app::less()"], ["std::sort<X>()"], ["main"]) == "app::less (a.cpp:0)"
    assert first(["malloc"], ["std::thread::run()"]) == "malloc (m.cpp:0)", "there is nothing else"
