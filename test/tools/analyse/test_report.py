# SPDX-License-Identifier: MIT
"""coffer report: what the page says, and the page itself in a browser."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pictures
import pytest
from chromium import chromium
from conftest import coffer


def report(trace: Path, tmp_path: Path, *arguments: object) -> Path:
    target = tmp_path / "page.html"
    coffer("report", trace, "-o", target, "--rounds", 1, *arguments)
    return target


def test_what_it_says(traces: dict[str, Path], tmp_path: Path) -> None:
    text = report(traces["every-addresses"], tmp_path, "-a", "glibc").read_text()
    for words in ("sample+0x123", "the recorder lost 7 records", "900 B at 55 ns", "1 of 2 frees (50.0%)", "Who pins"):
        assert words in text
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


@pytest.mark.skipif(on_ubuntu(), reason="Ubuntu has Chromium as a snap only, which needs a running snapd")
def test_the_page_in_a_browser(traces: dict[str, Path], tmp_path: Path) -> None:
    from PIL import Image

    page_file = report(Path(os.environ.get("COFFER_REPORT_TRACE", traces["single-addresses"])), tmp_path)
    problems: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.on("console",
                lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "blob:"))
                else problems.append(f"asks for {request.url}"))
        page.goto(page_file.as_uri())
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
        plots = page.locator(".js-plotly-plot")
        # Over time, memory, latency, sizes, lifetimes, waste, matrix.
        assert plots.count() == 7
        for number in range(plots.count()):
            box, drawn = plots.nth(number).bounding_box(), plots.nth(number).locator(".main-svg").first.bounding_box()
            assert box["width"] > 300 and drawn["width"] <= box["width"] + 1, f"picture {number} is cut off"
        assert page.locator(".js-plotly-plot .bars path").count() >= 10
        assert page.locator(".js-plotly-plot .scatterlayer .trace").count() >= 7
        rows = page.locator("table#replays tbody tr")
        assert [rows.nth(n).locator("td").first.inner_text() for n in range(rows.count())] == ["coffer", "glibc"]
        assert page.locator("table#sites tbody tr").count() >= 1 and page.locator("table#pins tbody tr").count() >= 1
        assert pictures.faults(page) == []
        # Nothing is wider than the page.
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        picture = tmp_path / "page.png"
        page.screenshot(path=picture, full_page=True)
    assert not problems, problems
    image = Image.open(picture).convert("RGB")
    assert image.size[0] == 1200 and image.size[1] > 2000
    colours = {colour for _, colour in image.getcolors(1 << 24)}
    # The bars of sizes, and what is pinned.
    assert {(0x1F, 0x5F, 0xA8), (0xD3, 0x54, 0x75)} <= colours and len(colours) > 50
    if keep := os.environ.get("COFFER_REPORT_SCREENSHOT"):
        shutil.copy(picture, keep)
