# SPDX-License-Identifier: MIT
"""Seven programs with a fault each. One command finds it: who is at fault stands in the first sentences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from in_process import run

BUILT = Path(os.environ["COFFER_SEEDED"])
SOURCES = Path(__file__).with_name("seeded")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all tests together."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def coffer(*arguments: object) -> list[str]:
    """The lines of the command: those of the program come first, and one is all it writes."""
    done = run(*arguments)
    return done.stdout.splitlines()[1:]


def line_of(source: str, text: str) -> int:
    lines = (SOURCES / source).read_text().split("\n")
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


def amount(verdict: str) -> float:
    """Bytes, as the sentence begins."""
    number, unit = re.match(r"([\d.]+) (B|KiB|MiB)", verdict).groups()
    return float(number) * {"B": 1, "KiB": 1024, "MiB": 1024**2}[unit]


def test_a_leak_in_c() -> None:
    verdict = coffer("leaks", "--", BUILT / "seeded_leak")[0]
    assert amount(verdict) == pytest.approx(2000 * (1016 + 16), rel=0.05)
    assert f"from open_entry, leak.c:{line_of('leak.c', 'malloc(sizeof')}" in verdict
    assert "called by serve_file" in verdict


def test_a_leak_in_containers() -> None:
    verdict = coffer("leaks", "--", BUILT / "seeded_containers")[0]
    assert re.search(rf"\d\d% from add_lines, containers\.cpp:{line_of('containers.cpp', 'session.lines.push_back')}, "
                     "called by open_pair", verdict), verdict
    assert "std::" not in verdict


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no Rust compiler here")
def test_a_leak_in_rust(tmp_path: Path) -> None:
    subprocess.run(["rustc", "-g", "-C", "opt-level=1", "-o", tmp_path / "leak", SOURCES / "leak.rs"], check=True)
    verdict = coffer("leaks", "--", tmp_path / "leak")[0]
    assert amount(verdict) == pytest.approx(1000 * 4000, rel=0.05)
    assert f"all from leak::load_tile, leak.rs:{line_of('leak.rs', 'vec!')}, called by leak::render_tile" in verdict


def test_a_leak_in_python_through_a_library() -> None:
    library = BUILT / "libseeded_sensor.so"
    lines = coffer("leaks", "--", "/usr/bin/python3", "-S", SOURCES / "sensor.py", library)
    assert amount(lines[0]) == pytest.approx(1000 * 6000, rel=0.05)
    assert (f"all from allocate_reading, sensor.c:{line_of('sensor.c', 'reading = malloc(')}, called by read_all"
            in lines[0])
    assert any(f"read_all  sensor.py:{line_of('sensor.py', 'reading = library')}" in line for line in lines)
    assert any("kept by Python itself" in line for line in lines)


def test_a_growing_list_in_python() -> None:
    lines = coffer("heap", "--", "/usr/bin/python3", SOURCES / "growing.py")
    made, kept = (line_of("growing.py", text) for text in ("body = ", "history.append"))  # the list grows, too
    culprit = rf"Session\.answer, growing\.py:{made}(,{kept})?, called by handle_request"
    assert re.search(rf"(%|all) from {culprit}", lines[0]), lines[0]
    growing = next(line for line in lines[:3] if line.startswith("Growing all the time: "))
    assert re.search(culprit, growing), growing


def test_a_growing_cache() -> None:
    lines = coffer("heap", "--", BUILT / "seeded_cache")
    growing = next(line for line in lines[:3] if line.startswith("Growing all the time: "))
    assert f"page_of, cache.cpp:{line_of('cache.cpp', 'static std::string page_of')}" in growing
    assert "called by Cache::lookup" in growing
    assert "Nothing that was sampled is left at the end." in lines[:4]


def test_fragmentation_by_survivors() -> None:
    lines = coffer("explain", "--", BUILT / "seeded_fragment")
    assert re.search(r"\d\d% of the difference\) are free in spans, beside live blocks, most of 704-byte blocks",
                     lines[0])
    assert f"keep_key, fragment.cpp:{line_of('fragment.cpp', 'static void* keep_key')}, called by main" in lines[1]
