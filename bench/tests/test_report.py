# SPDX-License-Identifier: MIT
"""What the report says, and the page itself in a browser."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
from pathlib import Path

import pytest
from chromium import chromium
from coffer_bench import charts, report, samples, sections
from coffer_bench import summary as sums
from coffer_bench.errors import BenchError
from conftest import on_ubuntu, results_of, write_results

ROUNDS = 5


def rounds(value: float) -> list[float]:
    return [value * (1 + number / 1000) for number in range(ROUNDS)]


def example() -> samples.Results:
    """Coffer loses one row, wins one, and draws one."""
    results = results_of(
        {
            "threadtest 8, 2 threads": {"coffer": rounds(3.0), "glibc": rounds(2.0), "tbb": rounds(6.0)},
            "larson 10-100": {"coffer": rounds(1.0), "glibc": rounds(2.0), "tbb": rounds(4.0)},
            "redis": {"coffer": rounds(1.0), "glibc": rounds(1.0), "tbb": rounds(1.005)},
        }
    )
    for record in results.of("sample"):
        record["figures"]["peak_kib"] = {"coffer": 90.0, "glibc": 100.0, "tbb": 300.0}[record["allocator"]]
    results.records.extend(
        [
            {
                "kind": "failure",
                "workload": "redis",
                "allocator": "tbb",
                "message": "status 139: <script>alert(1)</script>",
            },
            {"kind": "instructions", "workload": "malloc(64) + free", "allocator": "coffer", "instructions": 41.9},
            {
                "kind": "misses",
                "workload": "ring",
                "allocator": "coffer",
                "l1_misses": 1.0,
                "tlb_misses": 2.0,
                "pages": 3,
            },
            {
                "kind": "latency",
                "workload": "larson 10-100",
                "allocator": "coffer",
                "calls": {
                    "malloc": {"p50": 20, "p90": 21, "p99": 30, "p99.9": 900, "p99.99": 9000, "max": 90000, "count": 5}
                },
            },
        ]
    )
    return results


def test_verdicts_and_means() -> None:
    found = sums.summarise(example())
    by_name = {row.name: row for row in found.time}
    assert by_name["threadtest 8, 2 threads"].verdict == "lost" and by_name["threadtest 8, 2 threads"].best == "glibc"
    assert by_name["larson 10-100"].verdict == "won" and by_name["redis"].verdict == "even"
    assert by_name["redis"].failed == {"tbb": "status 139: <script>alert(1)</script>"}
    # 1.5, 0.5 and 1 over the best of each row; against tbb 0.5 and 0.25, its failure left out.
    assert sums.mean_versus_best(found.time).value == pytest.approx((1.5 * 0.5 * 1) ** (1 / 3))
    assert sums.mean_versus(found.time, "tbb").value == pytest.approx((0.5 * 0.25) ** 0.5)
    assert sums.tally(found.time) == (1, 1, 1) and sums.tally(found.memory, "tbb") == (0, 0, 2)
    assert [row.name for row in sums.losses(found.time)] == ["threadtest 8, 2 threads"]


def test_the_last_line() -> None:
    assert sums.last_line(sums.summarise(example())) == (
        "bench: 3 workloads, 3 allocators, time vs best 0.91, memory vs best 0.90"
    )


def test_a_run_without_a_peer_still_has_a_last_line() -> None:
    found = sums.summarise(results_of({"a": {"coffer": [1.0, 2.0]}}))
    assert sums.last_line(found) == "bench: 1 workloads, 1 allocators, time vs best -, memory vs best -"


def test_single_calls_have_a_table_of_their_own_and_no_part_in_the_mean() -> None:
    results = results_of(
        {
            "a": {"coffer": rounds(2.0), "glibc": rounds(2.0)},
            "slowest": {"coffer": rounds(9000.0), "glibc": rounds(1.0)},
        }
    )
    results.header["workloads"][1].update(timed=False, single=True, memory=False)
    found = sums.summarise(results)
    assert sums.last_line(found).startswith("bench: 2 workloads, 2 allocators, time vs best 1.00")
    titles = {table["title"]: [row["name"] for row in table["rows"]] for table in sections.row_tables(found)}
    assert titles["Time"] == ["a"] and titles["Single calls"] == ["slowest"]
    lost = {part["title"]: [row["name"] for row in part["lost"]] for part in sections.loss_lists(found)}
    assert lost["Time: where Coffer loses (0 of 1 rows)"] == []
    assert lost["Single calls: where Coffer loses (1 of 1 rows)"] == ["slowest"]


def test_the_papers_allocators_are_no_best_other() -> None:
    """They stand in the tables, and decide nothing: T and M are against allocators that people use. Nor do other builds
    of Coffer."""
    results = results_of(
        {
            "a": {"coffer": rounds(2.0), "glibc": rounds(4.0), "hoard": rounds(1.0), "nocheck": rounds(1.5)},
            "b": {"coffer": rounds(2.0), "glibc": rounds(1.0), "scalloc": rounds(0.5), "cif": rounds(0.1)},
            "c": {"coffer": rounds(2.0), "hoard": rounds(1.0)},
        }
    )
    found = sums.summarise(results)
    assert [row.best for row in found.time] == ["glibc", "glibc", ""]
    assert [row.verdict for row in found.time] == ["won", "lost", "alone"]
    assert sums.mean_versus_best(found.time).value == pytest.approx(1.0)  # 0.5 and 2
    assert sums.last_line(found) == "bench: 3 workloads, 6 allocators, time vs best 1.00, memory vs best 1.00"
    lines = {line["name"]: line for line in sections.top_lines(found)}
    assert list(lines) == [
        "the best of each row",
        "glibc",
        "hoard, in 2 rows",
        "nocheck, in 1 row",
        "scalloc, in 1 row",
        "cif, in 1 row",
    ]
    assert lines["hoard, in 2 rows"]["time"]["value"] == "2.00" and not lines["hoard, in 2 rows"]["used"]
    # A row's other figures are over the least of what people use.
    assert [cell["text"] for cell in sections.row_tables(found)[0]["rows"][0]["cells"]][:2] == ["2.00", "1.00"]
    assert "hoard" in report.markdown(found, results)
    assert all(mark in Path(report.HERE.parents[1], "docs/guide/bench.md").read_text() for mark in ("T and M", "hoard"))


def test_one_round_decides_nothing() -> None:
    results = results_of({"a": {"coffer": [3.0], "glibc": [1.0]}, "b": {"coffer": [1.0], "glibc": [9.0]}})
    found = sums.summarise(results)
    assert [row.verdict for row in found.time] == ["undecided", "undecided"]
    assert sums.tally(found.time) == (0, 2, 0) == sums.tally(found.time, "glibc") and not sums.losses(found.time)
    (line, _) = sections.loss_lists(found)
    assert line["title"].endswith("(0 of 2 rows)") and not line["lost"]
    assert line["undecided"] == "In one round, which decides nothing, 1 more look so: a 3.00×."
    assert any(text.startswith("One round: no interval") for text in sections.warnings(found))
    two = sums.summarise(results_of({"a": {"coffer": [3.0, 3.1], "glibc": [1.0, 1.0]}}))
    assert sums.tally(two.time) == (1, 0, 0)


def test_processor_time_instead_of_wall_time() -> None:
    results = example()
    for record in results.of("sample"):
        record["figures"]["cpu_ns"] = 7.0
    assert sums.mean_versus_best(sums.summarise(results, "cpu").time).value == pytest.approx(1.0)


def test_a_baseline_is_in_no_mean() -> None:
    results = example()
    results.header["workloads"][0]["baseline"] = True
    found = sums.summarise(results)
    assert len(found.time) == 2 and [row.name for row in found.baselines] == ["threadtest 8, 2 threads"]
    assert any("threadtest" in figure["here"] for figure in sections.paper_figures(found, results))


def test_what_one_must_know_is_said() -> None:
    results = example()
    results.header["plan"].update(quick=True, scale=0.1)
    results.header["machine"]["load"] = 5.0
    results.records[:] = [record for record in results.records if record["kind"] != "end"]
    text = " ".join(sections.warnings(sums.summarise(results)))
    found = sums.summarise(samples.Results(results.header, [*results.records, {"kind": "end", "cut": ["zebra"]}]))
    assert "Out of time for 1 workloads" in " ".join(sections.warnings(found))
    assert report.left_out(found) == ["zebra: out of time"]
    for words in ("A quick run", "SCALE=0.1", "not finished", "did other work"):
        assert words in text


def write(tmp_path: Path) -> Path:
    path = write_results(tmp_path / "samples.jsonl", example())
    report.write(path, tmp_path / "report")
    return tmp_path / "report"


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    text = (write(tmp_path) / "index.html").read_text()
    own = re.sub(r"<script>.*?</script>", "", text, count=1, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"'](?!data:|#)", own) and "@import" not in own
    assert "<script>alert(1)</script>" not in own and "&lt;script&gt;alert(1)" in own


def test_markdown_and_picture(tmp_path: Path) -> None:
    directory = write(tmp_path)
    text = (directory / "report.md").read_text()
    assert text.index("Time: where Coffer loses (1 of 3 rows)") < text.index("## Time\n")
    assert "- 1.50× threadtest 8, 2 threads (best: glibc)" in text and "| geometric mean |" in text
    head = (directory / "overview.png").read_bytes()
    assert head.startswith(b"\x89PNG") and len(head) > 5000


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = write_results(tmp_path / "samples.jsonl", example())
    with pytest.raises(BenchError, match="the report cannot be written: File exists"):
        report.write(path, path)


def test_a_full_disk_leaves_the_report_before(tmp_path: Path) -> None:
    """Whole, with nothing beside it."""
    directory = write(tmp_path)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(BenchError, match="the report cannot be written: File too large"):
            report.write(tmp_path / "samples.jsonl", directory)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_the_papers_claims_are_in_markdown_too(tmp_path: Path) -> None:
    text = (write(tmp_path) / "report.md").read_text()
    assert "## The papers' figures" in text and "Hoard, figure 3c: Hoard scales" in text
    assert "Here: larson 10-100: Coffer 1.00 ns" in text


def test_phases_and_rates_of_the_papers_figures() -> None:
    """BEMengine's three parts are timed apart; mmicro is in pairs a millisecond; faults have a table where there are
    many."""
    results = results_of(
        {
            "boundary elements, 1 thread": {"coffer": rounds(2.0), "glibc": rounds(4.0)},
            "mmicro, 1 thread": {"coffer": rounds(8.0), "glibc": rounds(16.0)},
        }
    )
    faults = {"boundary elements, 1 thread": 5000.0, "mmicro, 1 thread": 9.0}
    for record in results.of("sample"):
        record["figures"]["phase.solver_ns"] = 3e6 if record["allocator"] == "coffer" else 1.5e6
        record["figures"]["faults"] = faults[record["workload"]]
    found = sums.summarise(results)
    text = {figure["title"]: figure["here"] for figure in sections.paper_figures(found, results)}
    assert "solver of boundary elements, 1 thread: Coffer 3.00 ms, 2nd of 2, 2.00 of glibc" in text["Boundary elements"]
    assert "125,000 pairs a millisecond" not in text["Boundary elements"]
    assert re.search(r"12\d,\d{3} pairs a millisecond", text["mmicro"]), text["mmicro"]
    (table,) = [one for one in sections.row_tables(found) if one["title"] == "Page faults"]
    assert [row["name"] for row in table["rows"]] == ["boundary elements, 1 thread"]


def test_colours_are_the_allocators_own() -> None:
    names = ["coffer", *(str(number) for number in range(14))]
    assert len({charts.colour(names, name) for name in names}) == len(names)


def test_every_figure_of_the_papers_has_a_claim() -> None:
    for paper in json.loads(sections.PAPERS.read_text()):
        assert paper["claim"] and paper["title"] and paper["source"] and paper["workloads"]


@pytest.mark.skipif(on_ubuntu(), reason="Ubuntu has Chromium as a snap only, which needs a running snapd")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    from PIL import Image

    page_file = write(tmp_path) / "index.html"
    problems: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:", "blob:"))
                else problems.append(f"asks for {request.url}")
            ),
        )
        page.goto(page_file.as_uri())
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
        top = page.locator("table#top tbody tr")
        assert top.count() == 3 and top.first.locator("td").first.inner_text() == "the best of each row"
        assert top.first.is_visible() and top.first.bounding_box()["y"] < 900  # seen without scrolling
        assert page.locator("ul.losses li").first.inner_text().startswith("1.50× threadtest 8")
        assert (
            page.locator("table.rows").count() == 2
            and page.locator("table.rows").first.locator("tbody tr").count() == 4
        )
        plots = page.locator(".js-plotly-plot")
        assert plots.count() >= 6
        for number in range(plots.count()):
            box, drawn = plots.nth(number).bounding_box(), plots.nth(number).locator(".main-svg").first.bounding_box()
            assert box["width"] > 300 and drawn["width"] <= box["width"] + 1, f"picture {number} is cut off"
        assert page.locator(".js-plotly-plot .bars path").count() >= 6
        # Nothing is wider than the page.
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        picture = tmp_path / "page.png"
        page.screenshot(path=picture, full_page=True)
    assert not problems, problems
    image = Image.open(picture).convert("RGB")
    assert image.size[0] == 1200 and image.size[1] > 2000
    colours = {colour for _, colour in image.getcolors(1 << 24)}
    # Losses are red, wins green, and Coffer blue.
    assert {(0xC0, 0x39, 0x2B), (0x2E, 0x8B, 0x57), (0x1F, 0x5F, 0xA8)} <= colours and len(colours) > 50
    if keep := os.environ.get("COFFER_BENCH_SCREENSHOT"):
        shutil.copy(picture, keep)
