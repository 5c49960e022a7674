# SPDX-License-Identifier: MIT
"""The page of coffer heap --html in a browser: it is drawn, it is searched, and asks for nothing from elsewhere. And
what is exported for other programs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import chromium, opened
from coffer import places

COMMAND = places.build_dir() / "bin" / "coffer"
PROGRAM = Path(os.environ["COFFER_HEAP_PROGRAM"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    subprocess.run([COMMAND, "heap", "--rate", "1", "--html", folder / "page.html", "--speedscope", folder / "s.json",
                    "--collapsed", folder / "c.txt", "--json", "--", PROGRAM, "peak"], check=True,
                   stdout=(folder / "shown.json").open("w"), env={**os.environ, "XDG_CACHE_HOME": str(folder)})
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


WIDTHS = pytest.mark.parametrize("width, scheme", [(1280, "light"), (390, "dark")])


@WIDTHS
def test_the_page(browser: Any, written: Path, width: int, scheme: str) -> None:
    problems: list[str] = []
    page = opened(browser, written / "page.html", width, scheme, problems)
    shown = json.loads((written / "shown.json").read_text())
    assert page.locator(".verdict").all_inner_texts() == shown["verdicts"]
    assert page.locator("#picture .slice").count() > 5 and page.locator("#time .scatterlayer .trace").count() == 2
    for kind in ("icicle", "treemap", "flame graph"):
        page.select_option("#kind", kind)
        assert page.locator("#picture .slice").count() > 5, kind
    page.fill("#search", "seeded::fill")
    found = page.inner_text("#found")
    assert "found, 9" in found and found.endswith("% of the bytes")
    page.fill("#search", "<no such function>")
    assert page.inner_text("#found") == "0 found, 0.0 % of the bytes"
    page.select_option("#view", "temporary")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing is wider than the page"
    assert problems == []
    page.close()


@WIDTHS
def test_the_page_of_explain(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    done = subprocess.run([COMMAND, "explain", "--json", "--html", tmp_path / "page.html", "--", PROGRAM, "fragment",
                           "700"], check=True, capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    shown = json.loads(done.stdout.splitlines()[-1])
    problems: list[str] = []
    page = opened(browser, tmp_path / "page.html", width, scheme, problems)
    assert page.locator(".verdict").first.inner_text() == shown["verdict"] and page.locator(".tile").count() == 3
    rows = page.locator("#reasons tbody tr")
    assert rows.count() == len(shown["reasons"]) >= 5
    assert [rows.nth(at).locator("b").inner_text() for at in range(rows.count())] == [
        one["name"] for one in shown["reasons"]]
    texts = page.locator("#picture .slicetext").all_text_contents()
    assert any("free in spans" in text for text in texts) and any("-byte blocks" in text for text in texts)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing is wider than the page"
    assert problems == []
    page.close()


def test_speedscope(written: Path) -> None:
    found = json.loads((written / "s.json").read_text())
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    names = [profile["name"] for profile in found["profiles"]]
    assert names[0] == "heap_program: peak" and len(names) == 5
    for profile in found["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "bytes"
        assert len(profile["samples"]) == len(profile["weights"]) and sum(profile["weights"]) == profile["endValue"]
        assert all(0 <= frame < len(found["shared"]["frames"]) for stack in profile["samples"] for frame in stack)
    frames = {frame["name"]: frame for frame in found["shared"]["frames"]}
    assert frames["seeded::fill"]["file"].endswith("heap_program.cpp") and frames["seeded::fill"]["line"] > 1


def test_collapsed(written: Path) -> None:
    shown = json.loads((written / "shown.json").read_text())
    lines = (written / "c.txt").read_text().splitlines()
    stacks = [line.rpartition(" ") for line in lines]
    of_fill = sum(int(weight) for stack, _, weight in stacks if "main;seeded::peak;seeded::fill" in stack)
    assert of_fill == shown["sites"][0]["bytes"]
    assert sum(int(weight) for _, _, weight in stacks) == shown["bytes"] + sum(
        one["bytes"] for one in shown["apart"].values())
