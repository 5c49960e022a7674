# SPDX-License-Identifier: MIT
"""coffer report: what the page says, and the page itself in a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pictures
import pytest
from chromium import chromium, opened
from conftest import coffer


def report(trace: Path, tmp_path: Path, *arguments: object) -> Path:
    target = tmp_path / "page.html"
    coffer("report", trace, "-o", target, "--rounds", 1, *arguments)
    return target


def test_what_it_says(traces: dict[str, Path], tmp_path: Path) -> None:
    text = report(traces["every-addresses"], tmp_path, "-a", "glibc").read_text()
    for words in ("sample+0x122", "the recorder lost 7 records", "900 B at 55 ns", "1 of 2 frees (50.0%)", "Who pins",
                  "<b>900 B</b> <span>most live, at 55 ns</span>", "held at the highest moment, 55 ns after the start"):
        assert words in text, words
    # One file: no script, style or picture from elsewhere.
    assert "<link rel=\"stylesheet\"" not in text and "src=\"http" not in text


def test_without_a_replay(traces: dict[str, Path], tmp_path: Path) -> None:
    assert "No replay is shown." in report(traces["every"], tmp_path, "-a", "none").read_text()


def test_a_replay_that_fails_is_told(traces: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    text = report(traces["every"], tmp_path, "-a", f"glibc,{tmp_path / 'text.so'}").read_text()
    assert "was not loaded" in text and "<td>glibc</td>" in text


def test_faults(traces: dict[str, Path], tmp_path: Path) -> None:
    trace = traces["every"]
    assert "no such directory" in coffer("report", trace, "-o", "/no/such/page.html", status=1)
    assert "is a directory" in coffer("report", trace, "-o", tmp_path, status=1)
    assert "the output must be another file" in coffer("report", trace, "-o", trace, status=1)
    assert "no such file" in coffer("report", tmp_path / "none.trace", status=1)
    assert ".: no regular file" in coffer("report", ".", status=1)
    assert "it does not begin with" in coffer("report", "/etc/passwd", "-o", tmp_path / "x.html", status=1)
    assert "no allocator is called fast" in coffer("report", trace, "-o", tmp_path / "x.html", "-a", "fast", status=1)
    assert not (tmp_path / "x.html").exists()


def test_names_cannot_become_markup(tmp_path: Path, traces: dict[str, Path]) -> None:
    evil = tmp_path / "<script>alert(1)<.trace"
    shutil.copy(traces["every"], evil)
    text = report(evil, tmp_path, "-a", "none").read_text()
    assert "<script>alert" not in text


def on_ubuntu() -> bool:
    return "ID=ubuntu" in Path("/etc/os-release").read_text().split("\n")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if on_ubuntu():
        pytest.skip("Ubuntu has Chromium as a snap only, which needs a running snapd")
    with chromium() as opened:
        yield opened


def light(colour: tuple[int, ...]) -> float:
    return sum(colour[:3]) / 3


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
def test_the_page_in_a_browser(browser: Any, traces: dict[str, Path], tmp_path: Path, width: int, scheme: str) -> None:
    from PIL import Image

    page_file = report(Path(os.environ.get("COFFER_REPORT_TRACE", traces["single-addresses"])), tmp_path)
    problems: list[str] = []
    page = opened(browser, page_file, width, scheme, problems)
    plots = page.locator(".js-plotly-plot")
    # Over time, call stacks, sizes, lifetimes, memory, latency, waste, matrix.
    assert plots.count() == 8
    for number in range(plots.count()):
        box, drawn = plots.nth(number).bounding_box(), plots.nth(number).locator(".main-svg").first.bounding_box()
        assert box["width"] > 300 and drawn["width"] <= box["width"] + 1, f"picture {number} is cut off"
    assert page.locator(".js-plotly-plot .bars path").count() >= 10
    assert page.locator(".js-plotly-plot .scatterlayer .trace").count() >= 7
    rows = page.locator("table#replays tbody tr")
    assert [rows.nth(n).locator("td").first.inner_text() for n in range(rows.count())] == ["coffer", "glibc"]
    assert page.locator("table#sites tbody tr").count() >= 1 and page.locator("table#pins tbody tr").count() >= 1
    assert page.locator(".tile").count() == 3
    if width > 1000:
        assert pictures.faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing is wider than the page"
    # The first screen ends with the picture over time.
    assert page.locator("#time").bounding_box()["y"] < (900 if width > 1000 else 1300)
    picture = tmp_path / "page.png"
    page.screenshot(path=picture, full_page=True)
    page.close()
    assert not problems, problems
    image = Image.open(picture).convert("RGB")
    assert image.size[0] == width and image.size[1] > 2000
    colours = {colour: count for count, colour in image.getcolors(1 << 24)}
    # The bars of sizes, and what is pinned.
    assert {(0x1F, 0x5F, 0xA8), (0xD3, 0x54, 0x75)} <= colours.keys() and len(colours) > 50
    # Nothing large is left light on a dark page.
    bright = sum(count for colour, count in colours.items() if light(colour) > 200) / (image.size[0] * image.size[1])
    assert bright > 0.7 if scheme == "light" else bright < 0.05, bright
    if keep := os.environ.get("COFFER_REPORT_SCREENSHOT"):
        shutil.copy(picture, f"{keep}-{width}-{scheme}.png")


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a program whose cache grows for a second, and then goes."""
    trace = tmp_path_factory.mktemp("growing") / "cache.trace"
    coffer("record", "-q", "-o", trace, "--", Path(os.environ["COFFER_SEEDED"]) / "seeded_cache", "1000")
    return trace


def shown(page: Any) -> dict[str, list[str]]:
    rows = page.evaluate("Array.from(document.querySelectorAll('#sites tbody tr'), row =>"
                         " Array.from(row.cells, cell => cell.textContent))")
    return {row[0]: row[1:] for row in rows}


def test_a_range_of_time_is_looked_at(browser: Any, growing: Path, tmp_path: Path) -> None:
    page_file, problems = report(growing, tmp_path, "-a", "none"), []
    assert "unwind" not in page_file.read_text().split("<h2>")[0].rpartition("</script>")[2], "it has stacks"
    page = opened(browser, page_file, 1280, "light", problems)
    whole = shown(page)
    maker = next(name for name in whole if name.startswith("page_of, cache.cpp:"))
    assert float(whole[maker][1].rstrip(" %")) > 90
    seconds = float(page.input_value("#to"))
    for name, value in (("#from", 0.25 * seconds), ("#to", 0.5 * seconds)):
        page.fill(name, str(value))
        page.dispatch_event(name, "change")
    page.select_option("#view", "allocated")
    part = shown(page)
    calls, all_calls = (int(rows[maker][2].replace(",", "")) for rows in (part, whole))
    assert 0.15 * all_calls < calls < 0.35 * all_calls
    page.select_option("#view", "grown")
    assert maker in shown(page)
    assert f"{float(page.input_value('#from')):.3f} s to" in page.inner_text("#says")
    # With the mouse: over the right half of what is shown.
    box = page.locator("#time .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_function(f"Number(document.getElementById('from').value) > {0.3 * seconds}")
    page.click("#all")
    page.select_option("#view", "highest moment")
    page.wait_for_function(f"Number(document.getElementById('from').value) < {0.1 * seconds}")
    assert shown(page) == whole
    page.locator("#sites button.site").first.click()
    assert page.input_value("#search") == "page_of"
    assert page.inner_text("#found").startswith("1 found, 9")
    page.close()
    assert not problems, problems
