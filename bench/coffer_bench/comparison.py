# SPDX-License-Identifier: MIT
"""`coffer bench compare OLD NEW`: what became slower or larger, beyond noise.

Two commits, or two libraries, are run in turn on the same workloads. What looks changed after the first rounds is
measured once more, as often, and counts only if it is so then too: of a hundred rows some look changed by chance.

Two files of samples were made at different times. So Coffer's figures are first divided by those of the other
allocators that both files have, of the same row and round: what changed with the machine falls out."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import scipy.stats
from rich.console import Console
from rich.table import Table

from coffer_bench import allocators, catalogue, counts, samples, stats
from coffer_bench import summary as sums
from coffer_bench.allocators import TOP, Allocator
from coffer_bench.callgrind import require_tools
from coffer_bench.errors import BenchError
from coffer_bench.runner import Limits, Run
from coffer_bench.stats import Estimate
from coffer_bench.summary import CPU, MEMORY, OURS, TIME
from coffer_bench.workload import FAST, PAPERS, PATTERNS, PLAIN, Settings, Workload

# Counts of instructions are the same on every run, unless the machine is so busy that an allocator's clock meddles
# (Coffer's reclaimer takes spans from a heap that stands still; a class earns its span by a rate). Counts come closer
# when they are made again (counts.py): the last one counts, and a difference is believed when both were seen twice.
EXACT_THRESHOLD = 0.01
MOST_RECOUNTS = 8
# Of fewer rounds all may lie on one side by chance: of four once in eight, of two every other time, and the interval
# leaves out 1.
FEWEST_ROUNDS = 4
# Where nobody says which workloads: those that hear of every change of a hot path, none of which takes long.
GROUPS = (FAST, PAPERS, PLAIN, PATTERNS)
BUILD_SECONDS = 1800


@dataclass(frozen=True)
class Options:
    only: str
    rounds: int
    minutes: float
    threshold: float
    clock: str
    build_dir: Path
    results: Path | None = None


@dataclass(frozen=True)
class Change:
    """New over old."""

    row: str
    what: str
    ratio: Estimate
    threshold: float

    @property
    def worse(self) -> bool:
        return not self.undecided and self.ratio.value > 1 + self.threshold and self.ratio.above

    @property
    def better(self) -> bool:
        return not self.undecided and self.ratio.value < 1 - self.threshold and self.ratio.below

    @property
    def undecided(self) -> bool:
        if self.ratio.low == self.ratio.high:  # counts
            return False
        return self.ratio.count < FEWEST_ROUNDS and abs(self.ratio.value - 1) > self.threshold

    @property
    def same(self) -> bool:
        return not self.worse and not self.better


def run(old: str, new: str, options: Options, console: Console) -> bool:
    """Prints what changed. True: something became worse."""
    if is_samples(old) != is_samples(new):
        raise BenchError("compare two files of samples, or two commits or libraries")
    lost: list[str] = []
    if is_samples(old) and options.results:
        raise BenchError("--results is for two commits or libraries; these are samples already")
    if is_samples(old):
        changes, lost = of_samples(Path(old), Path(new), options)
    else:
        changes = of_builds(old, new, options, console)
    worse = show(changes, console)
    if lost:
        console.print(f"compare: {new} has no figure of Coffer's for {len(lost)} rows that had one: {'; '.join(lost)}")
    return worse or bool(lost)


def is_samples(text: str) -> bool:
    return text.endswith(".jsonl")


def show(changes: Sequence[Change], console: Console) -> bool:
    if not changes:
        raise BenchError("there is nothing that both have")
    worse = sorted((change for change in changes if change.worse), key=lambda change: -change.ratio.value)
    better = sorted((change for change in changes if change.better), key=lambda change: change.ratio.value)
    for title, found in (("WORSE", worse), ("better", better)):
        table = Table(title, "figure", "new over old", box=None)
        for change in found:
            table.add_row(change.row, change.what, str(change.ratio))
        if found:
            console.print(table)
    for what in dict.fromkeys(change.what for change in changes):
        of_this = [change.ratio.value for change in changes if change.what == what]
        console.print(f"{what}: {len(of_this)} rows, new over old {stats.geometric_mean(of_this):.3f}")
    if few := [change for change in changes if change.undecided]:
        console.print(f"undecided, for there are too few rounds: {', '.join(change.row for change in few)}")
    console.print(
        f"compare: {len(worse)} worse, {len(better)} better, {len(changes) - len(worse) - len(better)} as before"
    )
    return bool(worse)


# Two files.


def of_samples(old: Path, new: Path, options: Options) -> tuple[list[Change], list[str]]:
    """What both have; and the rows that had a figure of Coffer's and have none: it failed, or the run is not whole."""
    before, after = samples.read(old), samples.read(new)
    for key in ("quick", "scale"):
        if before.plan[key] != after.plan[key]:
            raise BenchError(f"the runs differ in {key}: {before.plan[key]} and {after.plan[key]}")
    changes: list[Change] = []
    lost: list[str] = []
    for what, figure, wanted in (
        ("time", CPU if options.clock == "cpu" else TIME, "timed"),
        ("memory", MEMORY, "memory"),
    ):
        now = {row.name: row for row in sums.make_rows(after, figure, wanted)}
        for was in sums.make_rows(before, figure, wanted):
            if not chosen(was.name, options.only) or not was.by_allocator.get(OURS):
                continue
            first, second = normalised(was, now[was.name]) if was.name in now else ([], [])
            if first and second:
                changes.append(Change(was.name, what, ratio_of_medians(second, first), options.threshold))
            elif what == "time":
                lost.append(was.name)
    first_counts, second_counts = (
        {(one["workload"]): one["instructions"] for one in results.of("instructions") if one["allocator"] == OURS}
        for results in (before, after)
    )
    changes += [
        Change(case, "instructions", exact(second_counts[case] / first_counts[case]), EXACT_THRESHOLD)
        for case in sorted(first_counts.keys() & second_counts.keys())
        if first_counts[case] > 0 and chosen(case, options.only)
    ]
    if options.only and not changes and not lost:
        raise BenchError(f"neither file has figures of Coffer's for a row whose name contains {options.only!r}")
    return changes, lost


def chosen(name: str, only: str) -> bool:
    texts = [text.strip() for text in only.split(";") if text.strip()]
    return not texts or any(text in name for text in texts)


def exact(ratio: float) -> Estimate:
    return Estimate(ratio, ratio, ratio)


def normalised(before: sums.Row, after: sums.Row) -> tuple[list[float], list[float]]:
    """Coffer's figure over the geometric mean of the others that both have, by round; as it is if there are none."""
    others = [name for name in before.measured if name != OURS and name in after.measured]

    def values(row: sums.Row) -> list[float]:
        found = []
        for number, own in row.by_allocator.get(OURS, {}).items():
            beside = [row.by_allocator[name][number] for name in others if number in row.by_allocator[name]]
            if len(beside) == len(others):
                found.append(own / stats.geometric_mean(beside) if beside else own)
        return found

    return values(before), values(after)


def ratio_of_medians(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """With a bootstrap of both, each for itself."""
    value = float(numpy.median(above) / numpy.median(below))
    if min(len(above), len(below)) < 2:
        return Estimate(value)
    if len(set(above)) == len(set(below)) == 1:
        return exact(value)

    def statistic(a: numpy.ndarray, b: numpy.ndarray, axis: int = -1) -> numpy.ndarray:
        return numpy.median(a, axis=axis) / numpy.median(b, axis=axis)

    found = scipy.stats.bootstrap(
        (numpy.asarray(above), numpy.asarray(below)),
        statistic,
        method="percentile",
        n_resamples=stats.RESAMPLES,
        confidence_level=stats.CONFIDENCE,
        vectorized=True,
        rng=numpy.random.default_rng(stats.SEED),
    )
    low, high = found.confidence_interval
    return Estimate(value, float(low), float(high), min(len(above), len(below)))


# Two builds.


def of_builds(old: str, new: str, options: Options, console: Console) -> list[Change]:
    from coffer_bench.session import require_programs

    settings = Settings(options.build_dir.resolve(), quick=True)
    require_programs(settings)
    # Both, before one is built, which takes minutes.
    found = [version(old), version(new)]
    chosen_rows, _ = catalogue.choose(settings, options.only, "" if options.only else ",".join(GROUPS))
    # All rounds, also of rows that need few to be told from other allocators: else they get no second look.
    workloads = [replace(one, most_rounds=2 * options.rounds) for one in chosen_rows]
    name = f"compare-{'-'.join(one.label for one in found)}.jsonl"
    path = options.results or options.build_dir / "bench" / "results" / name
    commits = settings.build_dir / "bench" / "commits"
    # Before the builds, too: another one that compares the same is found at once.
    writer = samples.Writer(path)
    try:
        old_library, new_library = (one.library or build_commit(one, commits, console) for one in found)
        pair = [Allocator("old", old_library), Allocator("new", new_library)]
        records, said = writer.begin(header(pair, workloads, options))
        if said:
            console.print(said)
        state = Run(pair, workloads, writer, Limits(options.rounds * 2, options.minutes * 60))
        state.take_over(records)
        changes = measure(state, options, path, console) + count(pair, settings, console)
        writer.append({"kind": "end", "cut": sorted(state.cut)})
        console.print(f"samples: {path}")
        return changes
    finally:
        writer.close()


def header(pair: list[Allocator], workloads: list[Workload], options: Options) -> samples.Record:
    from coffer_bench.session import describe_workload

    facts = allocators.machine_facts(pair)
    plan = {
        "quick": True,
        "scale": 1.0,
        "allocators": ["old", "new"],
        "rounds": options.rounds,
        "workloads": [workload.name for workload in workloads],
        "libraries": {name: one["sha256"] for name, one in facts["libraries"].items()},
    }
    return {
        "kind": "header",
        "format": samples.FORMAT,
        "plan": plan,
        "machine": facts,
        "versions": {},
        "workloads": [describe_workload(workload) for workload in workloads],
    }


def measure(state: Run, options: Options, path: Path, console: Console) -> list[Change]:
    """All rows; then those that look changed, once more."""
    with console.status("comparing") as status:
        for number in range(1, options.rounds + 1):
            for _ in state.run_round(number, status.update):
                pass
        first = changes_of(path, options, range(1, options.rounds + 1))
        suspects = {change.row for change in first if change.worse or change.better}
        state.workloads = [workload for workload in state.workloads if workload.name in suspects]
        again = range(options.rounds + 1, 2 * options.rounds + 1)
        for number in again:
            for _ in state.run_round(number, status.update):
                pass
    if state.failed:
        raise BenchError("; ".join(state.failed.values()))
    second = {(change.row, change.what): change for change in changes_of(path, options, again)}
    # Without time for a second look, the first one counts.
    return [
        second.get((change.row, change.what), change) if change.worse or change.better else change for change in first
    ]


def changes_of(path: Path, options: Options, numbers: range) -> list[Change]:
    results = samples.read(path)
    kept = samples.Results(
        results.header,
        [record for record in results.records if record["kind"] != "sample" or record["round"] in numbers],
    )
    found = []
    for what, figure, wanted in (
        ("time", CPU if options.clock == "cpu" else TIME, "timed"),
        ("memory", MEMORY, "memory"),
    ):
        for row in sums.make_rows(kept, figure, wanted):
            ratio = stats.estimate(stats.ratios(row.by_allocator.get("new", {}), row.by_allocator.get("old", {})))
            if ratio:
                found.append(Change(row.name, what, ratio, options.threshold))
    return found


def count(pair: list[Allocator], settings: Settings, console: Console) -> list[Change]:
    try:
        require_tools()
    except BenchError as error:
        console.print(f"no instructions counted: {error}")
        return []
    with console.status("counting instructions"):
        found = counts.count_cases(counts.CASES, pair, settings.bench_dir, 2)
        seen = {key: [value] for key, value in found.items()}
        for _ in range(MOST_RECOUNTS):
            differ = [
                case
                for case in counts.CASES
                if not instructions(case, found).same
                and any(seen[case.name, one.name].count(found[case.name, one.name]) < 2 for one in pair)
            ]
            for key, value in (counts.count_cases(differ, pair, settings.bench_dir, 2) if differ else {}).items():
                seen[key].append(value)
                found[key] = value
    return [instructions(case, found) for case in counts.CASES]


def instructions(case: counts.Case, found: counts.Counts) -> Change:
    ratio = found[case.name, "new"] / found[case.name, "old"]
    return Change(case.name, "instructions", exact(ratio), EXACT_THRESHOLD)


@dataclass(frozen=True)
class Version:
    """A library, by its path, or one that is to be built from a commit."""

    name: str
    label: str  # of its contents: the beginning of the commit, or of the file's checksum
    commit: str = ""
    library: Path | None = None


def version(text: str) -> Version:
    if text.endswith(".so") or "/" in text and Path(text).is_file():
        if not Path(text).is_file():
            raise BenchError(f"{text} is missing")
        return Version(text, allocators.sha256(Path(text))[:12], library=Path(text).resolve())
    commit = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}").strip()
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise BenchError(f"{text} is no commit of this repository, no library and no file of samples")
    return Version(text, commit[:12], commit)


def build_commit(one: Version, directory: Path, console: Console) -> Path:
    """The library of a commit, built once; who wants it while another one builds it waits."""
    made = directory / f"libcoffer-{one.label}.so"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"lock-{one.label}").open("w") as lock, console.status(f"building {one.name}"):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            build_into(one, made, directory)
    return made


def build_into(one: Version, made: Path, directory: Path) -> None:
    source, build = directory / f"source-{one.label}", directory / f"build-{one.label}"
    unfinished = made.with_suffix(".unfinished")
    discard(source, build)
    try:
        git("worktree", "add", "--quiet", "--detach", str(source), one.commit)
        for command in (
            ["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCOFFER_TESTS=OFF"],
            ["cmake", "--build", build, "--target", "coffer_shared"],
        ):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BUILD_SECONDS)
            if done.returncode != 0:
                raise BenchError(f"{one.name} cannot be built: {(done.stderr or done.stdout)[-1000:]}")
        built = (build / "lib" / "libcoffer.so").resolve()
        shutil.copyfile(built, unfinished)
        unfinished.rename(made)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{one.name} cannot be built: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
        discard(source, build)


def discard(source: Path, build: Path) -> None:
    shutil.rmtree(build, ignore_errors=True)
    shutil.rmtree(source, ignore_errors=True)
    git("worktree", "prune")


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, text=True).stdout
