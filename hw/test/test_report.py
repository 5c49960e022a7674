# SPDX-License-Identifier: MIT
"""The report of hw/report on tiny traces: no table is empty, counts add up, and what goes wrong is said in one line."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import HW

sys.path.insert(0, str(HW / "report"))

import claims  # noqa: E402
import record  # noqa: E402
import report  # noqa: E402
import runs  # noqa: E402
import software  # noqa: E402
import studies  # noqa: E402
import tables  # noqa: E402
from replay import Bench, Row  # noqa: E402

CALLS = 500


@pytest.fixture(autouse=True)
def no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is long enough for one of OHEBS by Verilator."""
    monkeypatch.setattr(runs, "LONG", 10**9)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Lua program under valgrind, with collections that follow one another soon."""
    target = tmp_path_factory.mktemp("calls") / "tiny.calls.gz"
    trees = HW / "report" / "programs" / "trees.lua"
    record.RECIPES["tiny"] = record.Recipe("tiny", "msa", lambda calls: ("lua5.4", str(trees), "40", "60"))
    record.record("tiny", CALLS, target)
    return target


def lines_of(path: Path) -> list[list[str]]:
    return [line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def test_a_recording_is_the_same_again_and_makes_sense(recorded: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.gz"
    record.record("tiny", CALLS, again)
    assert again.read_bytes() == recorded.read_bytes()
    live: dict[str, int] = {}
    kinds = {"a": 0, "f": 0, "l": 0, "s": 0, "g": 0}
    inside = 0
    for kind, *words in lines_of(recorded):
        kinds[kind] += 1
        if kind == "a":
            assert words[0] not in live
            live[words[0]] = int(words[1])
        elif kind == "f":
            del live[words[0]]
        elif kind in "ls" and words[0] != "0":
            assert int(words[1]) < live[words[0]]
            inside += 1
    assert kinds["a"] + kinds["f"] == CALLS and kinds["f"] > 50
    # It works on its blocks, and reads more than it writes.
    assert inside > 10 * CALLS and kinds["l"] > kinds["s"] > CALLS


def test_accesses_are_told_as_far_as_asked(recorded: Path, tmp_path: Path) -> None:
    """Without them the calls and the time between them are the same."""
    some = tmp_path / "some.gz"
    record.record("tiny", CALLS, some, accesses=100)
    whole, part = lines_of(recorded), lines_of(some)

    def times(lines: list[list[str]]) -> list[tuple[str, ...]]:
        calls, gap = [], 0
        for kind, *words in lines:
            gap += int(words[0]) if kind == "g" else 0
            if kind in "af":
                calls.append((kind, *words, str(gap)))
                gap = 0
        return calls

    assert times(whole) == times(part)
    place = [number for number, line in enumerate(part) if line[0] in "af"][99]
    assert part[:place] == whole[:place] and not any(line[0] in "ls" for line in part[place:])


def test_programs_are_given_more_to_do_for_more_calls() -> None:
    for name in ("trees_lua", "words_lua", "events_lua", "trees_python", "text_python", "events_python"):
        few, many = (record.RECIPES[name].command(calls) for calls in (100, 1_000_000))
        assert len(few) == len(many) and few != many, name


def test_the_tables(recorded: Path, bench: Bench, make_trace: Callable[..., Path], tmp_path: Path) -> None:
    from calls import calls

    counting = tmp_path / "counting.calls"
    counting.write_text("".join(f"{line}\ng 40\n" for line in calls("small", 3, CALLS, 2**25)))
    programs = [report.program("tiny", "msa", recorded, tmp_path),
                report.program("counting", "rcgc", counting, tmp_path)]
    replays = runs.Runs(tmp_path / "logs", 2, bench)
    sections = dict(report.appendix(tables.Tables(programs, replays)))
    assert [title[:4] for title in sections if title[0] == "A" and title[1] == "."] == [
        "A.1 ", "A.2 ", "A.2 ", "A.5,", "A.7 ", "A.8 ", "A.9 ", "A.10", "A.11"]
    for title, text in sections.items():
        assert len(text.splitlines()) >= 4, title
        assert re.search(r"\d", text.splitlines()[2]), title
    shares = [line.split("|")[2:5] for line in sections["A.9 How OHEBS serves allocations"].splitlines()[2:]]
    assert all(abs(sum(map(float, one)) - 1) < 0.0021 for one in shares)
    # What the thesis found, for this memory: cutting in parallel beats cutting one by one.
    mean = {unit: sum(one.mean for one in tables.Tables(programs, replays).times(unit, "msa", "a", "total"))
            for unit in ("ohebs", "hbs", "hbs_reference")}
    assert mean["ohebs"] < mean["hbs"] < mean["hbs_reference"]
    run = replays.one(programs[0].trace, tables.thesis_setup("ohebs"))
    assert len(run.calls) == CALLS


def test_a_long_trace_goes_by_verilator_and_says_the_same(bench: Bench, make_trace: Callable[..., Path], tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    trace = make_trace("bursts", 2, 400, 4096)
    # The unit that test_fast.py compiles too.
    setup = runs.Setup("hbs", True, 0, (("heap_log2", 12),))
    short = runs.Runs(tmp_path / "short", 1, bench)
    assert short.replays(trace) is bench
    monkeypatch.setattr(runs, "LONG", 300)
    long = runs.Runs(tmp_path / "long", 1, Bench(tmp_path / "none" / "there", ("none.vhd", "", "")))
    assert long.replays(trace) is long.machine
    first, second = short.one(trace, setup), long.one(trace, setup)
    assert list(first.calls) == list(second.calls) and first.transfers == second.transfers
    assert first.row("a", "answer") == second.row("a", "answer")


def test_software_is_counted(recorded: Path, bench: Bench, tmp_path: Path) -> None:
    replays = runs.Runs(tmp_path / "logs", 2, bench)
    one = report.program("tiny", "msa", recorded, tmp_path)
    [found] = software.measure(replays, [one])
    # A processor of 400 MHz: Knuth's policy takes 100 instructions and more, and with misses what HBS takes besides.
    assert 250 < found.knuth[0] < found.missing[0] and found.knuth[1] < found.missing[1]
    assert found.lists[0] < found.knuth[0] and found.ohebs[0] > 180
    least, most = software.ratios([found], "ohebs", 0)
    assert 1 < least < most and len(software.software_table([found]).splitlines()) == 3
    refused = tmp_path / "refused.txt"
    refused.write_text("a 8 00000004\ng 5\na 99 ffffffff\na 9 00000024\nf 00000024\n")
    assert software.calls_of(refused, 1000) == [8, 9, 1001]


def test_pairs_are_found_where_they_are(recorded: Path, bench: Bench, tmp_path: Path) -> None:
    one = report.program("tiny", "msa", recorded, tmp_path)
    text = studies.pairs_table(runs.Runs(tmp_path / "logs", 2, bench), [one], tmp_path)
    tiny, doubling = (line.split("|")[1:-1] for line in text.splitlines()[2:])
    assert float(doubling[2]) > 20 and float(doubling[4]) > 20 and 0 < float(tiny[1]) < 100


def test_what_does_not_add_up_is_found(tmp_path: Path) -> None:
    call = runs.Call("a", 8, 5, 30, 45, 15, 0, "d")
    free = call._replace(kind="f", how="-")
    good = {"alloc total": Row(45, 45.0, 45), "alloc answer": Row(15, 15.0, 15), "free total": Row(45, 45.0, 45),
            "free answer": Row(15, 15.0, 15)}
    runs.check(runs.Run([call, free], good, "replayed 3 calls: 1 allocations, 0 refused, 1 frees,"), "x")
    for calls, times in (([call, call, free], good), ([call], good), ([call, free._replace(answer=20)], good),
                         ([call, free], {})):
        with pytest.raises(runs.ReportError):
            runs.check(runs.Run(calls, times, "replayed 3 calls: 1 allocations, 0 refused, 1 frees,"), "x")
    for rows in ([], [["a", ""]], [["a"]]):
        with pytest.raises(runs.ReportError, match="no rows"):
            tables.table(["x", "y"], rows)
    with pytest.raises(runs.ReportError, match="not all"):
        tables.ways(runs.Run([call, call._replace(how="x")]))
    log = tmp_path / "log"
    log.write_text("a 1 00000004 1 2 3 4 5\n")
    with pytest.raises(runs.ReportError, match="log:1: not a line"):
        runs.read_log(log)


@pytest.mark.parametrize(("text", "message"), [
    (b"a 1 8\n", "nothing to report"), (b"a 1 8\na 2 8\n", "nothing to report"), (b"", "nothing to report"),
    (b"a 1 8\na 1 8\n", "line 2: the block has been allocated already"), (b"z\n", "line 1: no such call"),
    (b"a 1 8\nl 1 8 4\n", "nothing to report"), (b"a 1\n", "no such call"),
    (b"a 99999999999 8\n", "the name is too large"), (b"a 18446744073709551617 8\n", "the name is too large"),
    (b"a 1 -8\n", "line 1: no such call"), (b"a 1 nan\n", "no such call"), (b"a 1 8 9\n", "no such call"),
    (b"a  1 8\n", "no such call"), (b"\n", "no such call"), (b"\0\n", "no such call"),
    (b"a 1 18446744073709551616\n", "the number is too large"), (b"a 1 2000000001\n", "the number is too large"),
    (b"g 99999999999\n", "the number is too large"), (b"g 2000000000\ng 1\n", "line 2: the number is too large"),
    (b"a 1 " + b"0" * 200 + b"8\n", "line 1: the line is too long"), (b"f 1\n", "line 1: no such block"),
    (b"a 1 8\nf 1\nf 1\n", "line 3: no such block, or freed already"), (b"w ffffffff0\n", "the address is too large"),
    (b"a 1 8\nf 2\n", "line 2: no such block"), (b"a 1 8\nf 1", "nothing to report")])
def test_calls_that_are_wrong(tmp_path: Path, text: bytes, message: str) -> None:
    for name, data in (("x.calls", text), ("x.calls.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(runs.ReportError, match=message):
            report.program("x", "msa", tmp_path / name, tmp_path)
    (tmp_path / "y.calls.gz").write_bytes(gzip.compress(b"a 1 8\n")[:-4])
    with pytest.raises(runs.ReportError, match="y.calls.gz"):
        report.program("y", "msa", tmp_path / "y.calls.gz", tmp_path)


def test_an_exhausted_heap_is_reported(bench: Bench, tmp_path: Path) -> None:
    """Requests that find no room are refused by the model and by the units, and counted."""
    calls = tmp_path / "full.calls"
    calls.write_text("".join(f"a {i} {12 << (i % 9)}\n" for i in range(1, 400)) +
                     "".join(f"f {i}\n" for i in range(1, 400)))
    trace = tmp_path / "full.txt"
    runs.make_trace(calls, trace, heap=65536)
    here = runs.arrivals(trace)
    assert here.refused > 100 and here.longest_free_run == here.allocations - here.refused
    for unit in ("hbs", "ohebs"):
        run = runs.Runs(tmp_path / "logs", 1, bench).one(trace, runs.Setup(unit))
        refused = int(re.search(r"(\d+) refused", run.message)[1])
        assert refused >= here.refused if unit == "ohebs" else refused == here.refused
        assert sum(call.how == "-" for call in run.of("a")) >= refused


def test_programs_that_do_not_run(tmp_path: Path) -> None:
    for name, command, begin, message in (
            ("fails", ("lua5.4", "/no/such/file"), 1, "no call.*; the program: .*no/such/file"),
            ("quiet", ("true",), 10**6, "no call")):
        record.RECIPES[name] = record.Recipe(name, "msa", lambda calls, command=command: command, begin)
        with pytest.raises(record.RecordError, match=message):
            record.record(name, CALLS, tmp_path / "x.gz")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(record.RecordError, match="no_such_program is missing"):
        record.RECIPES["missing"] = record.Recipe("missing", "msa", lambda calls: ("no_such_program",))
        record.record("missing", CALLS, tmp_path / "x.gz")


def test_a_build_folder_named_from_here(tmp_path: Path) -> None:
    """`make hw-report` says build/hw, and what is recorded runs elsewhere: it would find no marks.so, and never end."""
    (tmp_path / "hw").symlink_to(record.BUILD)
    run = subprocess.run([sys.executable, "-B", HW / "report" / "record.py", "--only", "trees_lua", "--calls", "200",
                          "--accesses", "100", "--folder", "calls"], cwd=tmp_path, text=True, capture_output=True,
                         env=os.environ | {"COFFER_HW_BUILD": "hw"}, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert sum(line[0] in "af" for line in lines_of(tmp_path / "calls" / "trees_lua.calls.gz")) == 200


def test_a_recording_ends_with_its_last_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the program would go on; and so does one that tells nothing at all, or is not understood."""
    program = tmp_path / "endless.lua"
    program.write_text("local t repeat t = {t} if collectgarbage('count') > 99 then t = nil end until false")
    monkeypatch.setitem(record.RECIPES, "endless",
                        record.Recipe("endless", "msa", lambda calls: ("lua5.4", str(program))))
    target = tmp_path / "endless.gz"
    record.record("endless", CALLS, target, accesses=100)
    assert sum(line[0] in "af" for line in lines_of(target)) == CALLS
    silent = subprocess.run([record.built("accesses")], input=b"I  4000,3\n" * 10_000_000, capture_output=True,
                            check=False)
    assert silent.returncode == 1 and b"line 10000000: no mark yet" in silent.stderr
    deaf = tmp_path / "deaf"
    deaf.write_text("#!/bin/sh\necho 'not understood' >&2\nexit 1\n")
    deaf.chmod(0o755)
    monkeypatch.setattr(record, "built", lambda name, built=record.built: deaf if name == "accesses" else built(name))
    with pytest.raises(record.RecordError, match="^endless: not understood$"):
        record.record("endless", CALLS, target)


def test_the_page_says_of_which_text_it_is(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@x", *words], text=True,
                              capture_output=True, check=True).stdout.strip()

    assert report.revision(tmp_path).startswith("an unknown day")
    git("init", "-q")
    (tmp_path / "text").write_text("1")
    git("add", "text")
    git("commit", "-q", "-m", "x")
    day = git("log", "-1", "--format=%cs")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day) and report.revision(tmp_path) == day
    (tmp_path / "text").write_text("2")
    assert report.revision(tmp_path) == f"{day}, changed since"
    text = report.page([("T", "body")], 20000, 300, day, ["a.svg"])
    assert f"Of Coffer as of {day}, and 20,000 calls of each program, loads and stores before 300 of them." in text
    assert "--calls 20000 --accesses 300" in text and "](a.svg)" in text and "## T\n\nbody" in text


@pytest.mark.parametrize(("text", "message"), [
    ("I  4000,3\n L 1,4\nrubbish\n", "line 3: not lackey's"), (" L 1\n", "line 1: an address and a size"),
    (" S 200000001a00,1\n", "a mark that marks.c does not make"), ("", "no call"), (" L 10,0\n", "no size"),
    (" S 200000000000,1\n S 200000000109,1\n", "a mark that marks.c does not make")])
def test_lackey_output_that_is_wrong(text: str, message: str) -> None:
    run = subprocess.run([record.built("accesses")], input=text, text=True, capture_output=True, check=False)
    assert run.returncode == 1 and message in run.stderr and run.stderr.count("\n") == 1, run.stderr


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    assert shutil.which("valgrind"), "tools/setup.sh hw"
    for words, message in ((["--calls", "5"], "at least 100"), (["--only", "none"], "invalid choice"),
                           (["--jobs", "0"], "at least 1")):
        run = subprocess.run([sys.executable, "-B", HW / "report" / "report.py", *words], text=True,
                             capture_output=True, check=False)
        assert run.returncode == 2 and message in run.stderr


def test_a_burst_is_told_by_its_waits(bench: Bench, tmp_path: Path) -> None:
    """k-tolerance: with the thesis's buffers two requests at once do not wait, each way; the third allocation does."""
    replays = runs.Runs(tmp_path / "logs", 2, bench)
    found = {}
    for direction, level in (("allocations", "low"), ("frees", "high")):
        calls = tmp_path / f"{direction}.calls"
        calls.write_text(studies.burst(direction, level))
        runs.make_trace(calls, calls.with_suffix(".txt"))
        found[direction] = studies.tolerated(replays.one(calls.with_suffix(".txt"), runs.Setup("ohebs", True)))
    assert found["allocations"] == 2 and found["frees"] >= 2


def test_cuts_cost_by_depth_in_hbs_only(bench: Bench, tmp_path: Path) -> None:
    """5.3.3: the first call of a heap that is one block."""
    replays = runs.Runs(tmp_path / "logs", 2, bench)
    ohebs, hbs = (studies.cuts(replays, tmp_path, unit) for unit in ("ohebs", "hbs"))
    assert len(set(ohebs)) == 1 and hbs == sorted(hbs, reverse=True) and hbs[0] > 10 * hbs[-1]


def test_claims_are_rows_that_figures_decide(tmp_path: Path) -> None:
    """Of made-up runs: rules are over figures that are there, and the thesis's 5.5 is decided by what calls took."""
    here = [runs.Call(kind, 8, 5, 30, total, 15, 0, how) for kind, how, total in
            (("a", "d", 45), ("a", "c", 900), ("f", "-", 60), ("f", "-", 1700))]

    class MadeUp(runs.Runs):
        def get(self, wanted: list) -> list[runs.Run]:
            return [runs.Run(here, {}, "replayed 4 calls, 9 transfers,") for _ in wanted]

    replays = MadeUp(tmp_path, 1, Bench(tmp_path, ("none.vhd", "", "")))
    arrivals = runs.Arrivals(2, 2, 0, 100, 50, 200.0, 2)
    found = tables.Tables([tables.Program(one, one, tmp_path / one, arrivals) for one in ("msa", "rcgc")], replays)
    traffic = [studies.Traffic("msa", cache, misses, replays.one(tmp_path, runs.Setup("ohebs")))
               for cache, misses in (("none", 0.0), ("small", 4.0))]
    soft = software.Software("msa", (400, 1000), (1400, 9000), (400, 900), (700, 1200), (150, 300), (300, 800),
                             (15, 90))
    rows = claims.rows(found, {"allocations": 2, "frees": 3}, traffic, [soft],
                       {"ohebs": [505] * 11, "hbs": [9000] * 10 + [500]})
    made = {row["id"]: claims.verdicts.Row(row) for row in rows}
    assert len(made) == len(rows) == 19
    assert all(row.here() and row.verdict(row.figures) in claims.verdicts.rules.WORDS for row in made.values())
    bounds = made["hardware-5.5"]
    assert bounds.figures["worst"] == [4.39, 8.293] and bounds.verdict(bounds.figures) == "holds in part"
    assert bounds.verdict({"best": [1, 1], "worst": [3.9, 8.9]}) == "holds"
    assert bounds.verdict({"best": [1, 2.1], "worst": [4.1, 8.9]}) == "does not hold"
    assert claims.verdicts.section("hardware", rows).count("\n| ") == 21


def test_a_replay_is_not_repeated_for_the_same_trace(bench: Bench, tmp_path: Path) -> None:
    calls = tmp_path / "x.calls"
    calls.write_text("a 1 20\na 2 20\nf 1\n")
    runs.make_trace(calls, tmp_path / "x.txt")
    setup = runs.Setup("ohebs")
    first = runs.Runs(tmp_path / "logs", 1, bench).one(tmp_path / "x.txt", setup)
    # A bench that cannot run is not asked.
    again = runs.Runs(tmp_path / "logs", 1, Bench(tmp_path / "none" / "there", ("none.vhd", "", "")))
    assert again.one(tmp_path / "x.txt", setup) == first
    calls.write_text("a 1 20\na 2 20\nf 2\n")
    runs.make_trace(calls, tmp_path / "x.txt")
    assert len(runs.Runs(tmp_path / "logs", 1, bench).one(tmp_path / "x.txt", setup).of("f")) == 1
    (tmp_path / "logs" / "x-ohebs-rest-13.log").write_text("a 1\n")
    with pytest.raises(runs.ReportError, match="not a line of a log"):
        runs.Runs(tmp_path / "logs", 1, bench).one(tmp_path / "x.txt", setup)


def test_loads_and_stores_change_the_times(recorded: Path, bench: Bench, tmp_path: Path) -> None:
    found = studies.traffic(runs.Runs(tmp_path / "logs", 2, bench), [("tiny", recorded)], 60, tmp_path)
    text = studies.traffic_table(found)
    assert len(text.splitlines()) == 2 + len(studies.CACHES)
    none, small, large = found
    assert small.misses > large.misses > none.misses == 0
    assert "access answer" not in none.run.times and small.run.times["access answer"].least >= 30
    assert len({len(one.run.calls) for one in found}) == 1
