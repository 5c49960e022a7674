# SPDX-License-Identifier: MIT
"""Drives coffer top by textual's pilot; run by test_live.py in the command's own Python: top_pilot.py PID."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from coffer.live import page, processes
from coffer.live.figures import size
from coffer.live.top import Sorted, Top
from textual.widgets import Static, TabbedContent


def column(table: Sorted, name: str) -> list[str]:
    place = [title for title, _, _ in table.wanted].index(name)
    return [str(table.get_row_at(i)[place]) for i in range(table.row_count)]


def text_of(app: Top, name: str) -> str:
    return str(app.query_one(name, Static).render())


async def bars_fit(pid: int, columns: int) -> None:
    """Each bar stands in its line with its figure behind it, and all of them are seen."""
    app = Top(processes.Watched(pid), interval=0.1)
    async with app.run_test(size=(columns, 24)) as pilot:
        await pilot.pause(0.5)
        bars = app.query_one("#bars", Static)
        head, *lines = text_of(app, "#bars").rstrip("\n").split("\n")
        assert len(lines) == 4, lines
        for line in lines:
            assert len(line) <= bars.content_size.width, (columns, bars.content_size.width, line)
        assert bars.region.height >= len(lines) + -(-len(head) // bars.content_size.width), (columns, bars.region)
        assert app.query_one("#summary").region.contains_region(bars.region)


async def drive(pid: int) -> None:
    for columns in (80, 60, 120):
        await bars_fit(pid, columns)
    app = Top(processes.Watched(pid), interval=0.2)
    async with app.run_test(size=(110, 40)) as pilot:
        for _ in range(100):
            await pilot.pause(0.2)
            if app.reading is not None:
                break
        summary = text_of(app, "#bars")
        assert str(pid) in summary and "bound" in summary and "age" in summary and "rss" in summary, summary
        table = app.query_one("#class_table", Sorted)
        assert table.row_count > 0 and table.sorted_by == "held"
        assert app.class_entries[0].keys() >= {"rate", "held"}
        # The class of the program's 1,000-byte blocks holds most.
        assert column(table, "block")[0] == "1.0K", column(table, "block")
        await pilot.press("r")
        assert column(table, "block")[-1] == "1.0K"
        await pilot.press("s")
        assert table.sorted_by == "live" and column(table, "block")[0] == "1.0K"
        await pilot.press("S", "S", "S")
        assert table.sorted_by == "block"
        blocks = [entry["block_bytes"] for entry in app.class_entries]
        assert len(blocks) == table.row_count
        await pilot.click("#class_table", offset=(3, 0))
        await pilot.pause(0.1)
        await pilot.press("2")
        await pilot.pause(0.3)
        assert app.query_one(TabbedContent).active == "heaps"
        heaps = app.query_one("#heap_table", Sorted)
        assert heaps.row_count >= 1 and "yes" in column(heaps, "thread")
        await pilot.press("3")
        await pilot.pause(0.3)
        spans = app.query_one("#span_table", Sorted)
        assert app.query_one(TabbedContent).active == "spans" and spans.row_count > 10
        assert spans.row_count == len(app.span_entries) == app.reading.figures["spans"]
        assert f"{spans.row_count} of {spans.row_count} spans" in text_of(app, "#span_title")
        states = column(spans, "state")
        assert states and set(states) <= set(page.STATES)  # none is hot: the program sleeps, and its heap was emptied
        assert "1.0K" in column(spans, "block") and {"0", "1"} & set(column(spans, "heap"))
        free = [max(0, one["held"] - one["live"]) for one in app.span_entries]
        assert free and column(spans, "free")[0] == size(max(free))
        await pilot.press("s")
        assert spans.sorted_by == "used"
        await pilot.press("4")
        await pilot.pause(0.3)
        assert "peak_held" in text_of(app, "#figures")
        await pilot.press("s", "r")  # nothing to sort here, and no harm
        await pilot.press("space")
        await pilot.pause(0.1)
        assert "paused" in text_of(app, "#bars")
        await pilot.press("space", "1")
        await pilot.resize_terminal(30, 8)
        await pilot.pause(0.3)
        await pilot.resize_terminal(110, 40)
        os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            await pilot.pause(0.2)
            if "ENDED" in text_of(app, "#bars"):
                break
        assert "ENDED" in text_of(app, "#bars")
        await pilot.press("q")
    print("the pilot is content")


asyncio.run(drive(int(sys.argv[1])))
