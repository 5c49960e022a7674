# SPDX-License-Identifier: MIT
"""What stands beside the figures: labels of axes, legends, units, and all of it in a terminal of 80 columns."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pictures
import pytest
from chromium import chromium
from coffer import axes
from coffer_bench import report, samples, scaling, sections, session
from coffer_bench import summary as sums
from conftest import on_ubuntu, results_of, write_results
from rich.console import Console

NAMES = ["coffer", "glibc", "jemalloc", "tcmalloc", "mimalloc", "tbb", "snmalloc", "rpmalloc"]
UNITS = {
    "threadtest 8, 1 thread": "ns an operation",
    "producer-consumer, 2 threads": "ns in malloc and free, an object",
    "producer, consumer 64": "ns an operation",
    "boundary elements, 1 thread": "ns a coefficient",
    "boundary elements, 2 threads": "ns a coefficient",
}


def example() -> samples.Results:
    """Figures that lie apart, phases whose names are long, simulated cores, and units of several kinds."""
    factors = dict(zip(NAMES, (1.0, 3.0, 0.4, 20.0, 90.0, 500.0, 6.0, 2.0)))
    results = results_of(
        {workload: {name: [factor] * 3 for name, factor in factors.items()} for workload in UNITS}, memory=20480.0
    )
    for workload in results.header["workloads"]:
        workload["unit"] = UNITS[workload["name"]]
    for record in results.of("sample"):
        record["figures"]["peak_kib"] *= factors[record["allocator"]]
        if record["workload"].startswith("boundary"):
            record["figures"]["phase.registration_ns"] = 1e6 * factors[record["allocator"]]
    for allocator in (*NAMES, "one-lock"):
        for cores, speed_up in ((1, 1.0), (2, 0.7), (16, 0.03)):
            results.records.append(simulated(allocator, cores, speed_up))
    return results


def simulated(allocator: str, cores: int, speed_up: float) -> samples.Record:
    calls = {"calls": 10, "cycles": 123, "transfers": 1, "failed": 2, "waited": 3}
    return {
        "kind": "scaling",
        "simulated": "threadtest",
        "workload": f"threadtest on {cores} simulated cores",
        "allocator": allocator,
        "cores": cores,
        "cycles": 1e5 / speed_up,
        "operations": 10,
        "calls": {"malloc": calls, "free": calls},
        "lines": [],
    }


@pytest.mark.parametrize(
    "values", [(0.38, 6.2), (0.95, 1.04), (0.004, 130), (3, 5), (2000, 260_000), (1, 1), (1e-7, 1e9), (0.3, 3e12)]
)
def test_labels_are_the_values_at_which_they_stand(values: tuple[float, float]) -> None:
    ticks = axes.logarithmic(values)
    assert 2 <= len(ticks.values) <= axes.MOST_TICKS and len(set(ticks.labels)) == len(ticks.labels)
    for value, label in zip(ticks.values, ticks.labels):
        assert float(label.replace(",", "")) == pytest.approx(value) and not re.search("[a-zA-Z]", label)


def test_ratios_below_1_are_written_whole() -> None:
    assert {"0.5", "1", "5"} <= set(axes.logarithmic([0.38, 6.2]).labels)
    assert axes.logarithmic([0, -1]).labels == []


@pytest.mark.parametrize("high", [0, 7, 500, 1023, 1500, 5000, 1.1e6, 20e6, 411e6, 17e12])
def test_bytes_are_in_the_units_of_tables(high: float) -> None:
    ticks = axes.of_bytes([high])
    assert 3 <= len(ticks.values) <= axes.MOST_TICKS and ticks.values[-1] >= high
    for value, label in zip(ticks.values, ticks.labels):
        number, unit = label.split(" ")
        assert float(number.replace(",", "")) * 1024 ** axes.BYTE_UNITS.index(unit) == value


def test_a_unit_is_said_once() -> None:
    """A table's head has what all its rows have in common, a row the rest; and a picture's axis likewise."""
    results = example()
    found = sums.summarise(results)
    time, memory, *_ = sections.row_tables(found)
    assert (time["unit"], memory["unit"]) == ("ns", "KiB")
    said = {row["name"]: f"{time['unit']} {row['least'].split(' ', 1)[1]}" for row in time["rows"]}
    assert said == UNITS
    assert all(re.fullmatch(r"[\d,.]+", row["least"]) for row in memory["rows"])
    by_title = {figure["title"]: figure for figure in sections.paper_figures(found, results)}
    (picture, peak) = by_title["Producers and consumers"]["html"]
    assert '"text":"ns, log scale"' in picture and "free, an object" in picture
    assert '"text":"KiB, log scale"' in peak
    (alone, *_) = by_title["threadtest, 8 bytes"]["html"]
    assert '"text":"ns an operation, log scale"' in alone
    assert "Coffer 1.00 ns an operation" in by_title["threadtest, 8 bytes"]["here"]


@pytest.mark.parametrize("columns", [80, 60, 120])
def test_the_progress_is_seen_whole(columns: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=columns, force_terminal=True, soft_wrap=True, color_system=None)
    with session.bar(console) as progress:
        task = progress.add_task("round 1 of 7", total=1200)
        progress.update(task, description="producer-consumer 16-512, 2 threads, mimalloc3", advance=600)
        progress.refresh()
    lines = [re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", line) for line in re.split("[\r\n]", out.getvalue())]
    (line, *_) = [line for line in lines if "producer" in line]
    assert len(line) <= columns and "600/1200" in line and "0:00:0" in line and "━━" in line


def test_tables_fit_80_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, soft_wrap=True)
    results = results_of({"a": {name: [1.0, 1.1] for name in [*NAMES, "hoard"]}})
    report.print_tables(sums.summarise(results), console)
    curve = {cores: simulated("coffer", cores, cores * 0.9) for cores in (1, 128)}
    scaling.print_curve(curve, console, lines=False)
    lines = out.getvalue().split("\n")
    assert len(lines) > 15 and not [line for line in lines if len(line) > 80]
    assert any("hoard, in 1 row" in line for line in lines)


def test_the_overview_is_seen_whole(tmp_path: Path) -> None:
    """Between all that is drawn and each edge there is white."""
    from PIL import Image

    results = results_of({f"row {number}": {name: [1.0] for name in NAMES} for number in range(150)})
    report.write(write_results(tmp_path / "samples.jsonl", results), tmp_path / "report")
    picture = Image.open(tmp_path / "report" / "overview.png").convert("L")
    width, height = picture.size
    for edge in ((0, 0, width, 2), (0, height - 2, width, height), (0, 0, 2, height), (width - 2, 0, width, height)):
        assert picture.crop(edge).getextrema() == (255, 255), edge


@pytest.mark.skipif(on_ubuntu(), reason="Ubuntu has Chromium as a snap only, which needs a running snapd")
def test_pictures_in_a_browser(tmp_path: Path) -> None:
    path = write_results(tmp_path / "samples.jsonl", example())
    report.write(path, tmp_path / "report")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto((tmp_path / "report" / "index.html").as_uri())
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
        assert pictures.faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
