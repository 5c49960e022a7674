# SPDX-License-Identifier: MIT
"""coffer top: a screen in the manner of htop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import DataTable, Footer, Sparkline, Static, TabbedContent, TabPane

from coffer import consoles
from coffer.errors import CofferError
from coffer.live import page, processes
from coffer.live.figures import Rates, age, number, rates_between, size, state_of

HISTORY = 120

# Title, how it is written, what it is of an entry.
Column = tuple[str, Callable[[Any], str], Callable[[dict[str, Any]], Any]]


def percent(value: float) -> str:
    return f"{value:.0f}%"


CLASS_COLUMNS: list[Column] = [
    ("block", size, lambda entry: entry["block_bytes"]),
    ("spans", number, lambda entry: entry["spans"]),
    ("held", size, lambda entry: entry["held"]),
    ("live", size, lambda entry: entry["live"]),
    ("free", size, lambda entry: max(0, entry["held"] - entry["live"])),
    ("used", percent, lambda entry: 100 * entry["live"] / entry["held"] if entry["held"] else 0),
    ("bound", size, lambda entry: entry["bound"]),
    ("blocks", number, lambda entry: entry["allocated_blocks"]),
    ("blocks/s", number, lambda entry: entry["rate"]),
]
HEAP_COLUMNS: list[Column] = [
    ("heap", lambda value: f"{value:.0f}", lambda entry: entry["index"]),
    ("thread", lambda value: "yes" if value else "no", lambda entry: entry["attached"]),
    ("held", size, lambda entry: entry["held"]),
    ("slack", size, lambda entry: entry["slack"]),
    ("mailed", size, lambda entry: entry["mailed"]),
    ("blocks", number, lambda entry: entry["allocated_blocks"]),
    ("blocks/s", number, lambda entry: entry["rate"]),
]
SPAN_COLUMNS: list[Column] = [
    ("address", lambda value: f"{value:x}", lambda entry: entry["address"]),
    ("block", lambda value: size(value) if value else "any", lambda entry: entry["block_bytes"]),
    ("state", str, state_of),
    ("heap", lambda value: f"{value:.0f}" if value >= 0 else "-",
     lambda entry: -1 if entry["owner"] == page.NO_OWNER else entry["owner"]),
    ("held", size, lambda entry: entry["held"]),
    ("live", size, lambda entry: entry["live"]),
    ("free", size, lambda entry: max(0, entry["held"] - entry["live"])),
    ("used", percent, lambda entry: 100 * entry["live"] / entry["held"] if entry["held"] else 0),
    ("resident", size, lambda entry: entry["resident"]),
]
MEMORY = ["live", "held", "resident", "free_resident", "bound", "limit", "committed", "reserved", "metadata", "large",
          "large_blocks", "peak_held", "spans", "chunks", "mixed_spans", "mixed_held", "mixed_live", "mixed_resident",
          "mixed_bound", "heaps", "heaps_ever", "system_calls", "purges", "purged_bytes", "allocated_blocks",
          "allocated_bytes"]
NUMBERS = {"large_blocks", "spans", "chunks", "mixed_spans", "heaps", "heaps_ever", "system_calls", "purges",
           "allocated_blocks"}


class Sorted(DataTable[Text]):
    """A table of entries, by one column."""

    def __init__(self, columns: list[Column], sorted_by: str, **arguments: Any) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True, **arguments)
        self.wanted = columns
        self.sorted_by = sorted_by
        self.reverse = True

    def on_mount(self) -> None:
        self.title_columns()

    def title_columns(self) -> None:
        self.clear(columns=True)
        for title, _, _ in self.wanted:
            mark = (" ▼" if self.reverse else " ▲") if title == self.sorted_by else ""
            self.add_column(Text(title + mark, justify="right"), key=title)

    def show(self, entries: list[dict[str, Any]]) -> None:
        value = next(of for title, _, of in self.wanted if title == self.sorted_by)
        row = self.cursor_row
        self.clear()
        for entry in sorted(entries, key=value, reverse=self.reverse):
            self.add_row(*(Text(form(of(entry)), justify="right") for _, form, of in self.wanted))
        if row < self.row_count:
            self.move_cursor(row=row)

    def sort_by(self, title: str) -> None:
        if title == self.sorted_by:
            self.reverse = not self.reverse
        else:
            self.sorted_by, self.reverse = title, True
        self.title_columns()

    def next_column(self, step: int) -> None:
        titles = [title for title, _, _ in self.wanted]
        self.sort_by(titles[(titles.index(self.sorted_by) + step) % len(titles)])


class Top(App[None]):
    CSS = """
    #summary { height: auto; min-height: 6; padding: 0 1; }
    #bars { width: 3fr; height: auto; }
    #history { width: 2fr; height: 5; }
    TabbedContent { height: 1fr; }
    ContentSwitcher { height: 1fr; }
    DataTable { height: 1fr; }
    #span_title { height: 1; padding: 0 1; }
    """
    TITLE = "coffer top"
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "quit", "quit"),
        Binding("1", "tab('classes')", "classes"),
        Binding("2", "tab('heaps')", "heaps"),
        Binding("3", "tab('spans')", "spans"),
        Binding("4", "tab('memory')", "memory"),
        Binding("s,greater_than_sign", "column(1)", "sort by next"),
        Binding("S,less_than_sign", "column(-1)", "by previous"),
        Binding("r", "reverse", "reverse"),
        Binding("space", "pause", "pause"),
    ]

    def __init__(self, watched: processes.Watched, interval: float = 1.0) -> None:
        # textual takes an empty NO_COLOR for one that is set, and makes a grey screen of ours.
        if not consoles.is_plain():
            os.environ.pop("NO_COLOR", None)
        super().__init__(ansi_color=consoles.is_plain() or None)
        self.watched = watched
        self.pid = watched.number
        self.interval = interval
        self.before: page.Reading | None = None
        self.reading: page.Reading | None = None
        self.class_entries: list[dict[str, Any]] = []
        self.heap_entries: list[dict[str, Any]] = []
        self.span_entries: list[dict[str, Any]] = []
        self.history: list[float] = [0.0] * HISTORY
        self.paused = False
        self.ended = False

    def compose(self) -> ComposeResult:
        with Horizontal(id="summary"):
            yield Static(id="bars")
            yield Sparkline(self.history, id="history")
        with TabbedContent(initial="classes"):
            with TabPane("Classes", id="classes"):
                yield Sorted(CLASS_COLUMNS, "held", id="class_table")
            with TabPane("Heaps", id="heaps"):
                yield Sorted(HEAP_COLUMNS, "held", id="heap_table")
            with TabPane("Spans", id="spans"):
                yield Static(id="span_title")
                yield Sorted(SPAN_COLUMNS, "free", id="span_table")
            with TabPane("Memory", id="memory"):
                yield Static(id="figures")
        yield Footer()

    def on_mount(self) -> None:
        self.run_worker(self.keep_looking())

    async def keep_looking(self) -> None:
        while True:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.0, began + self.interval - time.monotonic()))

    # --- Looking. ---

    async def look(self) -> None:
        if self.paused or self.ended:
            return
        if not processes.is_running(self.pid):
            self.ended = True
            return self.show_summary(Rates())
        try:
            # In another thread: a process that does nothing answers in a quarter second, and keys do not wait for it.
            reading = await asyncio.to_thread(self.watched.read)
        except CofferError:
            return  # the next look decides whether it ended
        if not self.query("#bars"):
            return  # it is being closed
        self.before, self.reading = self.reading, reading
        rates = rates_between(self.before, reading)
        self.history = [*self.history[1:], rates.bytes]
        self.class_entries = self.with_rates(reading.classes, self.before.classes if self.before else [], "block_bytes")
        self.class_entries = [entry for entry in self.class_entries if entry["spans"] or entry["allocated_blocks"]]
        self.heap_entries = self.with_rates(reading.heaps, self.before.heaps if self.before else [], "index")
        self.span_entries = reading.spans
        self.show_all(rates)

    def with_rates(self, entries: list[dict[str, int]], before: list[dict[str, int]], key: str) -> list[dict[str, Any]]:
        """By place for classes (twins have blocks of one size), by index for heaps."""
        known = {(place if key == "block_bytes" else one[key]): one["allocated_blocks"]
                 for place, one in enumerate(before)}
        seconds = 0.0
        if self.before and self.reading:
            seconds = (self.reading.figures["taken_ns"] - self.before.figures["taken_ns"]) / 1e9
        result = []
        for place, one in enumerate(entries):
            was = known.get(place if key == "block_bytes" else one[key])
            rate = 0.0 if was is None or seconds <= 0 else max(0, one["allocated_blocks"] - was) / seconds
            result.append({**one, "rate": rate})
        return result

    # --- Showing. ---

    def show_all(self, rates: Rates) -> None:
        self.show_summary(rates)
        self.query_one("#history", Sparkline).data = self.history
        self.fill_table()
        self.show_memory()

    def bar(self, name: str, value: int, most: int, colour: str, beside: str = "") -> Text:
        """Between its name and what is behind it, as wide as the terminal has room for; all bars are equally wide."""
        width = min(30, max(5, self.query_one("#bars", Static).content_size.width - 31))
        filled = min(width, round(width * value / most)) if most else 0
        return Text.assemble(f"{name:>9} ", ("█" * filled, colour), ("░" * (width - filled), "dim"),
                             f" {size(value):>6}{beside}\n")

    def show_summary(self, rates: Rates) -> None:
        reading = self.reading
        if reading is None:
            return
        figures = reading.figures
        state = " ENDED" if self.ended else " paused" if self.paused else ""
        most = max(figures["bound"], reading.held, figures["resident"], 1)
        text = Text.assemble((f"{self.pid} {reading.program}{state}", "bold"),
                             f"   alloc {size(rates.bytes)}/s  {number(rates.blocks)} blocks/s"
                             f"   purged {size(rates.purged_bytes)}/s   ",
                             (f"age {age(reading)}\n", "bold red" if reading.is_stale else ""))
        text.append(self.bar("live", figures["live"], most, "green"))
        text.append(self.bar("held", reading.held, most, "yellow"))
        text.append(self.bar("resident", figures["resident"], most, "cyan",
                             "" if reading.rss is None else f"   rss {size(reading.rss)}"))
        text.append(self.bar("bound", figures["bound"], most, "red"))
        self.query_one("#bars", Static).update(text)

    def show_memory(self) -> None:
        reading = self.reading
        if reading is None:
            return
        values = reading.figures
        lines = [f"{name:>18} {number(values[name]) if name in NUMBERS else size(values[name]):>8}" for name in MEMORY]
        half = (len(lines) + 1) // 2
        rows = [left + (lines[half + i] if half + i < len(lines) else "") for i, left in enumerate(lines[:half])]
        self.query_one("#figures", Static).update(Text("\n".join(rows)))

    # --- Keys. ---

    def active_table(self) -> Sorted | None:
        name = {"classes": "#class_table", "heaps": "#heap_table", "spans": "#span_table"}.get(
            self.query_one(TabbedContent).active)
        return self.query_one(name, Sorted) if name else None

    def fill_table(self) -> None:
        """The one that is seen; the others when they are."""
        table = self.active_table()
        if table is None or self.reading is None:
            return
        table.show({"class_table": self.class_entries, "heap_table": self.heap_entries,
                    "span_table": self.span_entries}[table.id or ""])
        spans, held = self.reading.figures["spans"], sum(one["held"] for one in self.span_entries)
        shown = f"{len(self.span_entries)} of {spans} spans, those with most free: {size(held)} held"
        self.query_one("#span_title", Static).update(shown)

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        table = self.active_table()
        if table is not None:
            table.focus()

    def on_tabbed_content_tab_activated(self, _: TabbedContent.TabActivated) -> None:
        self.fill_table()

    def action_column(self, step: int) -> None:
        table = self.active_table()
        if table is not None:
            table.next_column(step)
            self.fill_table()

    def action_reverse(self) -> None:
        table = self.active_table()
        if table is not None:
            table.sort_by(table.sorted_by)
            self.fill_table()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.show_summary(Rates())

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        table = event.data_table
        if isinstance(table, Sorted) and event.column_key.value is not None:
            table.sort_by(event.column_key.value)
            self.fill_table()
