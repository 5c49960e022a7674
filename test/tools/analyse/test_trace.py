# SPDX-License-Identifier: MIT
"""coffer trace as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from coffer.trace.reader import ALLOCATIONS, EVENT, FAILED, Op, Trace
from coffer.trace.symbols import Symbols, addr2line, bare, joined
from conftest import COMMAND, coffer


def events_of(path: Path) -> np.ndarray:
    with Trace(path) as trace:
        return np.concatenate([np.empty(0, EVENT), *trace])


def describe(path: Path) -> dict:
    with Trace(path) as trace:
        for _ in trace:
            pass
        return trace.describe()


def test_info(traces: dict[str, Path]) -> None:
    text = coffer("trace", "info", traces["every"])
    assert "2 malloc, 1 calloc, 1 aligned, 2 realloc, 2 free" in text
    assert "900 B at 55 ns" in text and "the recorder lost 7 records" in text
    assert "sample+0x123" in text and "(no stack recorded)" in text
    whole = json.loads(coffer("trace", "info", traces["every"], "--json"))
    assert whole["survey"]["peak_bytes"] == 900 == whole["summary"]["peak_bytes"]
    assert whole["information"]["program"] == "sample"


def test_info_agrees_with_the_reader(traces: dict[str, Path]) -> None:
    found = json.loads(coffer("trace", "info", traces["single"], "--json"))
    events, survey = events_of(traces["single"]), found["survey"]
    made = np.isin(events["op"], ALLOCATIONS)
    assert sum(one["count"] for one in survey["sizes"]) == made.sum()
    assert sum(one["requested"] for one in survey["sizes"]) == events["size"][made].sum()
    assert sum(row[1] for row in survey["histogram"]) == made.sum()
    assert sum(row[1] for row in survey["lifetimes"]) == (events["op"] == Op.FREE).sum()
    assert survey["end_bytes"] == found["summary"]["live_bytes"]
    assert max(row[3] for row in survey["timeline"]) == survey["peak_bytes"] == found["summary"]["peak_bytes"]


def test_frag(traces: dict[str, Path]) -> None:
    text = coffer("trace", "frag", traces["every-addresses"])
    assert "addresses as recorded" in text and "sample+0x123" in text and "100.0%" in text
    assert "plain allocator" in coffer("trace", "frag", traces["single"], "--window", 4096)
    whole = json.loads(coffer("trace", "frag", traces["single-addresses"], "--window", 4096, "--json"))
    worst = whole["at_worst"]
    assert worst["used"] - worst["live"] >= whole["at_peak"]["used"] - whole["at_peak"]["live"]
    # Each half-empty window's rest is shared out whole, but for rounding.
    assert sum(one["pinned"] for one in worst["by_class"]) == pytest.approx(worst["pinned"], abs=50)
    assert "power of two" in coffer("trace", "frag", traces["single"], "--window", 1000, status=1)


def live_at(events: np.ndarray) -> int:
    """Bytes that live at the end."""
    good = events[(events["flags"] & FAILED) == 0]
    made = good[np.isin(good["op"], [*ALLOCATIONS, Op.REALLOC])]
    freed = good[good["op"] == Op.FREE]
    return int(made["size"].sum()) - int(made["old_size"].sum()) - int(freed["size"].sum())


def test_a_cut_begins_with_what_is_live(traces: dict[str, Path], tmp_path: Path) -> None:
    events = events_of(traces["single"])
    coffer("trace", "cut", traces["single"], "-o", tmp_path / "cut.trace", "--events", "2000:2999")
    cut = events_of(tmp_path / "cut.trace")
    before = live_at(events[:2000])
    extra = len(cut) - 1000
    assert extra > 0 and int(cut["size"][:extra].sum()) == before and not cut["time"][:extra].any()
    assert (cut["size"][extra:] == events["size"][2000:3000]).all()
    assert (cut["op"][extra:] == events["op"][2000:3000]).all()
    assert (np.diff(cut["time"][extra:]) == np.diff(events["time"][2000:3000])).all()
    assert describe(tmp_path / "cut.trace")["information"]["made_by"] == "coffer trace cut"
    coffer("replay", tmp_path / "cut.trace", "-a", "glibc")


def test_a_cut_without_what_is_live(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "cut.trace"
    coffer("trace", "cut", traces["single"], "-o", out, "--from", "100us", "--to", "200us", "--no-live")
    events, cut = events_of(traces["single"]), events_of(out)
    inside = events[(events["time"] >= 100_000) & (events["time"] <= 200_000)]
    born = set(inside["block"][np.isin(inside["op"], ALLOCATIONS)])
    assert len(cut) == sum(one["block"] in born for one in inside)


def test_cuts_that_are_wrong(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "cut.trace"
    for arguments, message in (
        (["--from", "1h"], "a time is a number with its unit"),
        (["--from", "-1s"], "a time is a number with its unit"),
        (["--events", "5"], "FIRST:LAST"),
        (["--events", "5:1"], "5 is above 1"),
        (["--from", "900s"], "nothing lies in the cut"),
    ):
        assert message in coffer("trace", "cut", traces["single"], "-o", out, *arguments, status=1)
    assert not list(tmp_path.iterdir()), "nothing half made is left"
    assert "No such file" in coffer("trace", "cut", traces["single"], "-o", "/no/such/place", status=1)
    assert "no such file" in coffer("trace", "cut", "/no/such.trace", "-o", out, status=1)


def test_filter(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "some.trace"
    coffer("trace", "filter", traces["single"], "-o", out, "--size", "100:199")
    events, some = events_of(traces["single"]), events_of(out)
    made = events[np.isin(events["op"], ALLOCATIONS)]
    wanted = set(made["block"][(made["size"] >= 100) & (made["size"] <= 199)])
    assert len(some) == sum(one["block"] in wanted for one in events)
    coffer("trace", "filter", traces["every"], "-o", out, "--stack", 1)
    assert [Op(op) for op in events_of(out)["op"] if op in (*ALLOCATIONS, Op.FREE)] == [Op.MALLOC]
    assert describe(out)["stacks"] == {"1": [0x400123, 0x400456]} and describe(out)["modules"]
    coffer("trace", "filter", traces["handover"], "-o", out, "--thread", 2)
    assert len(events_of(out)) == 0


def test_merge(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "both.trace"
    sources = [traces["every"], traces["single"], traces["every-addresses"]]
    coffer("trace", "merge", *sources, "-o", out, "--together")
    parts = [events_of(path) for path in sources]
    both = events_of(out)
    # Two reallocs and the like of blocks that never were: all is there.
    assert len(both) == sum(map(len, parts))
    assert live_at(both) == sum(map(live_at, parts))
    assert (np.diff(both["time"].astype("i8")) >= 0).all()
    threads = {int(one) for one in both["thread"]} - {0}
    assert len(threads) == 2 + 1 + 2
    found = describe(out)
    assert len(found["stacks"]) == 2 and len(found["modules"][-1]["modules"]) == 2
    text = coffer("trace", "info", out)
    assert text.count("sample+0x123") == 2
    coffer("replay", out, "-a", "glibc")
    assert "two traces or more" in coffer("trace", "merge", sources[0], "-o", out, status=1)


def test_anonymize(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "nobody.trace"
    coffer("trace", "anonymize", traces["every-addresses"], "-o", out, "--size-step", 64, "--time-step", "20ns")
    found, events = describe(out), events_of(out)
    assert found["information"] == {"made_by": "coffer trace anonymize"}
    assert not found["modules"] and found["stacks"] == {"1": [1, 2]} and found["realtime_ns"] == 0
    assert not events["address"].any() and not (events["time"] % 20).any()
    made = events[np.isin(events["op"], ALLOCATIONS) & (events["flags"] == 0)]
    assert list(made["size"]) == [128, 256, 320]
    assert not events["size"][np.isin(events["op"], (Op.THREAD_START, Op.FORK))].any()
    whole = out.read_bytes()
    assert b"sample" not in whole and b"4242" not in whole


def test_csv(traces: dict[str, Path], tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(coffer("trace", "export", traces["single"], "-o", "-", "-f", "csv"))))
    events = events_of(traces["single"])
    assert len(rows) == len(events)
    for name, column in (("time_ns", "time"), ("block", "block"), ("size", "size"), ("thread", "thread")):
        assert [int(row[name]) for row in rows] == list(events[column])
    assert [row["operation"] for row in rows] == [Op(op).name.lower() for op in events["op"]]
    assert "No space left" in coffer("trace", "export", traces["single"], "-o", "/dev/full", "-f", "csv", status=1)
    assert "goes to a file" in coffer("trace", "export", traces["single"], "-o", "-", "-f", "parquet", status=1)
    words = ["bash", "-c", 'ulimit -f 8; exec "$0" "$@"', COMMAND, "trace", "export", traces["single"], "-o"]
    done = subprocess.run([*words, tmp_path / "a.csv"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "SIGXFSZ" in done.stderr and not list(tmp_path.iterdir())


def test_parquet(traces: dict[str, Path], tmp_path: Path) -> None:
    from pyarrow import parquet

    out = tmp_path / "events.parquet"
    coffer("trace", "export", traces["single"], "-o", out)
    table, events = parquet.read_table(out), events_of(traces["single"])
    assert table.num_rows == len(events)
    assert table["size"].to_pylist() == list(events["size"])
    assert table["op"].to_pylist() == [Op(op).name.lower() for op in events["op"]]
    assert "No such file" in coffer("trace", "export", traces["single"], "-o", "/no/such/place.parquet", status=1)
    (tmp_path / "bad.trace").write_bytes(traces["single"].read_bytes()[:50])
    coffer("trace", "export", tmp_path / "bad.trace", "-o", tmp_path / "bad.parquet", status=1)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("bad.parquet")]


def test_chrome(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    coffer("trace", "export", traces["every-addresses"], "-o", out, "--least", 1)
    whole = json.loads(out.read_text())
    found = whole["traceEvents"]
    assert all(one["ph"] in "MCXbe" and one["pid"] == 1 and "ts" in one or one["ph"] == "M" for one in found)
    counters = [one for one in found if one["name"] == "live bytes in the trace"]
    assert [one["args"]["value"] for one in counters][-1] == 400 and max(c["args"]["value"] for c in counters) == 900
    begun, ended = ([one for one in found if one["ph"] == phase] for phase in "be")
    # Three allocations and a realloc; each begins and ends once, under one name and number.
    assert len(begun) == len(ended) == 4
    assert sorted((one["id2"]["local"], one["name"]) for one in begun) == sorted(
        (one["id2"]["local"], one["name"]) for one in ended)
    assert {one["args"]["bytes"]: one["name"] for one in begun}[400] == "blocks of 257 to 512 bytes"
    # A realloc ends one slice and begins another, with a number of its own.
    assert len({one["id2"]["local"] for one in begun}) == 4 and len({one["args"]["block"] for one in begun}) == 3
    assert {one["args"]["name"] for one in found if one["name"] == "thread_name"} == {"thread 1", "thread 2"}
    assert "No space left" in coffer("trace", "export", traces["every"], "-o", "/dev/full", "-f", "perfetto", status=1)


def check_as_perfetto_does(whole: dict) -> dict[str, int]:
    """What Perfetto's importer of this format asks of an event, so that it counts no failure and leaves nothing open:
    numbers of processes and threads that fit 32 bits, times and durations that are numbers, an id and a process for
    asynchronous events, ends that close a beginning of their category, id and name in the order of times, counters
    whose values are numbers, names for metadata."""
    counts: dict[str, int] = {}
    opened: dict[tuple, float] = {}
    timed = [one for one in whole["traceEvents"] if one["ph"] != "M"]
    for one in sorted(timed, key=lambda event: event["ts"]):  # as the importer: stable
        assert isinstance(one["ts"], (int, float)) and math.isfinite(one["ts"]) and one["ts"] >= 0
        key = (one.get("cat"), one.get("id2", {}).get("local"), one["name"])
        if one["ph"] == "b":
            assert key[0] and key[1] is not None and key not in opened
            opened[key] = one["ts"]
        elif one["ph"] == "e":
            assert opened.pop(key) <= one["ts"]
        elif one["ph"] == "X":
            assert one["dur"] >= 0
        else:
            assert one["ph"] == "C" and {type(value) for value in one["args"].values()} in ({int}, {float})
    for one in whole["traceEvents"]:
        assert all(0 <= one[key] < 2**32 for key in ("pid", "tid")) and isinstance(one["name"], str) and one["name"]
        assert one["ph"] != "M" or (one["name"] in ("process_name", "thread_name") and one["args"]["name"])
        counts[one["ph"]] = counts.get(one["ph"], 0) + 1
    assert opened == {} and whole["displayTimeUnit"] in ("ms", "ns")
    return counts


@pytest.mark.parametrize("name", ["server", "lua", "python_trees"])
def test_chrome_of_real_programs(name: str, tmp_path: Path) -> None:
    trace, out = Path(__file__).parents[1] / "traces" / f"{name}.trace", tmp_path / "trace.json"
    coffer("trace", "export", trace, "-o", out, "--least", 0)
    counts = check_as_perfetto_does(json.loads(out.read_text()))
    assert counts["b"] == counts["e"] > 100 and counts["C"] > 100 and counts["X"] == counts["M"] - 1 > 0


def test_exports_that_are_wrong(traces: dict[str, Path], tmp_path: Path) -> None:
    assert "says no format" in coffer("trace", "export", traces["every"], "-o", tmp_path / "x.txt", status=1)
    assert "'parquet'" in coffer("trace", "export", traces["every"], "-o", "-", "-f", "xml", status=2)


@pytest.mark.parametrize("command", [["info"], ["frag"], ["cut", "-o", "x"], ["filter", "-o", "x"],
                                     ["anonymize", "-o", "x"], ["export", "-o", "x.csv"], ["export", "-o", "x.json"],
                                     ["export", "-o", "x.parquet"]])
def test_a_file_that_is_no_trace(traces: dict[str, Path], tmp_path: Path, command: list[str]) -> None:
    bad = tmp_path / "bad.trace"
    bad.write_bytes(b"COFFER" + traces["single"].read_bytes()[:50])
    words = [str(tmp_path / word) if word.startswith("x") else word for word in command]
    assert "bad.trace: byte" in coffer("trace", words[0], bad, *words[1:], status=1)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in (["trace", "info"], ["replay"], ["report", "-o", tmp_path / "x.html"],
                    ["trace", "export", "-o", tmp_path / "x.parquet"]):
        assert "no regular file" in coffer(*command, tmp_path / "pipe", status=1)


def test_a_new_trace_takes_no_device_s_place(traces: dict[str, Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in ("cut", "filter", "anonymize"):
        assert "takes the place" in coffer("trace", command, traces["every"], "-o", tmp_path / "pipe", status=1)
    assert "takes the place" in coffer("trace", "merge", traces["every"], traces["single"], "-o", tmp_path, status=1)
    assert (tmp_path / "pipe").is_fifo()


def test_names_without_arguments() -> None:
    assert [bare(text) for text in ("f(int)", "a::(anonymous namespace)::g(void (*)(int)) const", "operator()(int)",
                                    "main")] == ["f", "a::g", "operator()", "main"]
    assert joined([("allocate(int)", "/a/x.hpp:3"), ("keep()", "/a/x.cpp:8"), ("serve(int)", "/b/y.cpp:70")]) == (
        "allocate < keep < serve", "x.cpp:8")
    assert joined([]) == ("", "")


def test_names_of_call_sites(tmp_path: Path) -> None:
    """By addr2line where the file is there, by module and offset where not."""
    import shutil

    source, program = tmp_path / "two.c", tmp_path / "two"
    source.write_text("int first(int a) { return a * 3; }\nint main(void) { return first(0); }\n")
    subprocess.run(["gcc", "-g", "-O0", "-no-pie", "-o", program, source], check=True)
    listing = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    start = next(int(line.split()[0], 16) for line in listing.splitlines() if line.endswith(" T first"))
    assert shutil.which("addr2line") and addr2line(str(program), [start + 4]) == [[("first", f"{source}:1")]]
    base = 0x400000
    description = {"stacks": {"1": [start + 5, 0x7000_0010], "2": [0x9999_0000]}, "modules": [{"time": 0, "modules": [
        {"start": base, "end": base + 0x10000, "offset": base, "path": str(program), "build_id": ""},
        {"start": 0x7000_0000, "end": 0x7000_1000, "offset": 0x2000, "path": "/gone/lib.so", "build_id": ""}]}]}
    symbols = Symbols(description)
    symbols.resolve([1, 2, 3])
    assert [str(frame) for frame in symbols.stack(1)] == ["first (two.c:1)", "lib.so+0x2010"]
    assert symbols.name(2) == "0x99990000" and "not in the trace" in symbols.name(3)


class Knuth:
    """The buddy system of rt/vectors/README.md, anew."""

    def __init__(self, size: int) -> None:
        self.size, self.free = size, {size: [0]}
        self.taken: dict[int, int] = {}

    def alloc(self, request: int) -> int:
        wanted = 16
        while wanted < request + 4:
            wanted *= 2
        found = next((size for size in sorted(self.free) if size >= wanted and self.free[size]), 0)
        if not found:
            return 0xFFFFFFFF
        place = self.free[found].pop(0)
        while found > wanted:
            found //= 2
            self.free.setdefault(found, []).insert(0, place + found)
        self.taken[place] = found
        return place + 4

    def give_back(self, address: int) -> None:
        place = address - 4
        size = self.taken.pop(place)
        while size < self.size and place ^ size in self.free.get(size, []):
            self.free[size].remove(place ^ size)
            place, size = place & ~size, size * 2
        self.free.setdefault(size, []).insert(0, place)


def test_rt_vectors_have_the_answers_of_a_buddy_system(traces: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "vectors.txt"
    for heap, refused in ((1 << 20, False), (1 << 14, True)):
        done = json.loads(coffer("trace", "export", traces["single"], "-o", out, "-f", "rt", "--policy", "knuth",
                                 "--heap", heap))
        assert (done["refused"] > 0) == refused
        lines = [line.split() for line in out.read_text().splitlines()]
        assert lines[1:4] == [["policy", "knuth"], ["heap", str(heap)], ["min", "16"]]
        model = Knuth(heap)
        for line in lines[4:]:
            if line[0] == "a":
                assert model.alloc(int(line[1])) == int(line[2], 16)
            elif line[0] == "f":
                model.give_back(int(line[1], 16))
        headers = {int(line[1], 16): int(line[2], 16) for line in lines if line[0] == "h"}
        assert headers == {**model.taken, **{place: size + 1 for size, places in model.free.items()
                                             for place in places}}
    estranged = json.loads(coffer("trace", "export", traces["every"], "-o", out, "-f", "rt"))
    assert estranged == {"requests": 4, "refused": 0, "frees": 3, "live_at_end": 1}
    for status, arguments, message in ((1, ["--heap", 1000], "a power of two"), (2, ["--policy", "best"], "'knuth'")):
        assert message in coffer("trace", "export", traces["every"], "-o", out, "-f", "rt", *arguments, status=status)


def test_the_hardware_s_trace_has_gaps(traces: dict[str, Path], tmp_path: Path) -> None:
    """The same calls and answers as rt's; between them what the rule of export.hpp makes of times and instructions."""
    out, vectors = tmp_path / "trace.txt", tmp_path / "vectors.txt"
    for name, per_ns, per_instruction, longest in (("single", 0.2, 0.5, 20000), ("every", 3, 0.3, 7)):
        coffer("trace", "export", traces[name], "-o", vectors, "-f", "rt", "--policy", "knuth", "--heap", 1 << 25)
        done = json.loads(coffer("trace", "export", traces[name], "-o", out, "-f", "hw", "--cycles-per-ns", per_ns,
                                 "--cycles-per-instruction", per_instruction, "--longest-gap", longest))
        lines = out.read_text().splitlines()
        assert [line for line in lines if line[0] != "g"] == vectors.read_text().splitlines()
        rows = list(csv.DictReader(io.StringIO(coffer("trace", "export", traces[name], "-o", "-", "-f", "csv"))))
        rows = [row for row in rows if row["operation"] in ("malloc", "calloc", "aligned", "realloc", "free")
                and not int(row["flags"]) & 1]
        gaps, left, last, counted = [], 0.0, None, 0
        for row in rows:
            if int(row["flags"]) & 8:
                counted += 1
                left += int(row["instructions"]) * per_instruction
            elif last is not None:
                left += max(0, int(row["time_ns"]) - last) * per_ns
            last = int(row["time_ns"])
            gaps.append(longest if left >= longest else int(left))
            left = 0.0 if left >= longest else left - int(left)
        assert [int(line[2:]) for line in lines if line[0] == "g"] == [gap for gap in gaps if gap]
        assert sum(gaps) > 0 and (name == "single" or longest in gaps)
        assert done["gaps_counted"] == counted and done["gaps_shortened"] == gaps.count(longest)
    for arguments, message in ((["--cycles-per-ns", -1], "from 0 to 1000"), (["--heap", 100], "a power of two"),
                               (["--cycles-per-instruction", "nan"], "from 0 to 1000"),
                               (["--longest-gap", 10**9], "at most")):
        assert message in coffer("trace", "export", traces["every"], "-o", out, "-f", "hw", *arguments, status=1)
