#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the neighbours of each policy constant cost: policy_sweep.py [--only NAMES] [--rows NAMES].

For each constant of src/policy the library is built twice more, with half of its value and with twice (of a logarithm
of a power of two, one less and one more), and each build is measured. Nothing in the sources knows of this: a build has
a folder with one changed header before src/ on its include path, and only what uses the constant is compiled anew.

Rows whose figures are the same on every run, on a busy machine, too: simulated cycles and counts of instructions. Peak
memory and page faults are nearly so; of these the least of some runs counts, and a difference is shown only where it is
more than the runs of the library as it is differ among themselves. Every figure is better the lower it is.

The table goes to docs/design/policy.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from coffer_bench.allocators import TOP, Allocator, BenchError, describe, machine_facts, run_json
from coffer_bench.callgrind import count_all, require_tools
from coffer_bench.suite import pairs

sys.path.insert(0, str(TOP / "tools"))
from version import version  # noqa: E402

POLICY = "src/policy"
LIBRARY = f"lib/libcoffer.so.{version()}"
SIMULATOR = "libexec/coffer/simulate_coffer"
CONSTANT = re.compile(r"^inline constexpr (?P<type>\w+) (?P<name>k\w+) = (?P<value>[^;]+);", re.MULTILINE)
# A change of less is shown as none.
LEAST = {"simulated": 0.005, "instructions": 0.005, "memory": 0.01, "faults": 0.03}


@dataclass(frozen=True)
class Constant:
    header: str
    name: str
    value: str

    def neighbours(self) -> dict[str, str]:
        if self.name.endswith("Log2"):
            return {"half": f"({self.value}) - 1", "double": f"({self.value}) + 1"}
        return {"half": f"({self.value}) / 2", "double": f"({self.value}) * 2"}


@dataclass(frozen=True)
class Build:
    """What is measured."""

    allocator: Allocator
    simulator: Path


@dataclass(frozen=True)
class Row:
    name: str
    kind: str  # of LEAST
    measure: Callable[[Build, Path], float]
    headers: tuple[str, ...]
    runs: int = 1


def memory(program: str, figure: str, **arguments: int | str) -> Callable[[Build, Path], float]:
    def measure(build: Build, programs: Path) -> float:
        command = [str(programs / "patterns" / program), *pairs(arguments)]
        return run_json(build.allocator, command)[figure]

    return measure


def instructions(program: str, **arguments: int | str) -> Callable[[Build, Path], float]:
    def measure(build: Build, programs: Path) -> float:
        command = [str(programs / program), *pairs(arguments)]
        return count_all(build.allocator, command)

    return measure


def simulated(workload: str, cores: int, scale: float) -> Callable[[Build, Path], float]:
    def measure(build: Build, _: Path) -> float:
        command = [str(build.simulator), f"workload={workload}", f"cores={cores}", f"scale={scale}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)["cycles"]

    return measure


SPANS = ("kept", "held_back", "listed", "idle")
EVERY = (*SPANS, "returned", "taken", "mixing")
ROWS = [
    Row("ring of 16", "memory", memory("ring", "ratio"), (*SPANS, "mixing"), 2),
    Row("idle owners", "memory", memory("idle_owners", "ratio", local=1), (*SPANS, "returned"), 2),
    Row("idle owners, remote", "memory", memory("idle_owners", "ratio", local=0), SPANS, 2),
    Row("ten phases", "memory", memory("phases", "ratio"), ("returned", "mixing"), 2),
    Row("0.8 MB", "memory", memory("small", "ratio"), ("kept", "mixing"), 3),
    Row("shbench A/U", "memory", memory("fragmentation", "ratio", workload="shbench"), EVERY, 5),
    Row("breathing", "faults", memory("breathing", "faults_a_breath"), ("kept", "returned"), 2),
    Row("random", "instructions", instructions("random", threads=1, slots=8000, low=16, high=512, operations=100_000),
        EVERY),
    Row("octaves", "instructions", instructions("random", threads=1, slots=2000, low=16, high=32768, logarithmic=1,
        operations=50_000), EVERY),
    Row("remote", "instructions", instructions("instructions", what="remote", size=64, rounds=32_000),
        ("kept", "held_back")),
    Row("larson, paper, 8", "simulated", simulated("larson-paper", 8, 0.1), SPANS),
    Row("larson, start, 8", "simulated", simulated("larson-start", 8, 0.1), SPANS),
    Row("larson, 16", "simulated", simulated("larson", 16, 0.1), SPANS),
    Row("producer-consumer, 8", "simulated", simulated("producer-consumer", 8, 0.3), SPANS),
]


def constants(root: Path) -> Iterator[Constant]:
    for path in sorted((root / POLICY).glob("*.hpp")):
        for match in CONSTANT.finditer(path.read_text()):
            yield Constant(path.stem, match["name"], match["value"])


@dataclass
class Builder:
    """Builds variants beside a build that is up to date."""

    build_dir: Path
    commands: list[str] = field(default_factory=list)
    depends: dict[str, set[str]] = field(default_factory=dict)  # object: headers of policy/ that it includes

    def __post_init__(self) -> None:
        ninja = ["ninja", "-C", str(self.build_dir), "-t"]
        text = subprocess.run([*ninja, "commands", LIBRARY, SIMULATOR], capture_output=True, text=True, check=True)
        self.commands = text.stdout.splitlines()
        text = subprocess.run([*ninja, "deps"], capture_output=True, text=True, check=True)
        target = ""
        for line in text.stdout.splitlines():
            if line and not line[0].isspace():
                target = line.split(":")[0]
                self.depends[target] = set()
            elif found := re.search(rf"{POLICY}/(\w+)\.hpp$", line):
                self.depends[target].add(found[1])

    def variant(self, constant: Constant, label: str, value: str, jobs: int, simulator: bool) -> Build:
        place = self.build_dir.resolve() / "policy" / f"{constant.name}-{label}"
        header = place / "policy" / f"{constant.header}.hpp"
        shutil.rmtree(place, ignore_errors=True)
        header.parent.mkdir(parents=True)
        text = (TOP / POLICY / header.name).read_text()
        cast = f"static_cast<decltype({constant.value})>({value})"
        text = re.sub(rf"( {constant.name} = )[^;]+;", lambda match: f"{match[1]}{cast};", text, count=1)
        # They say what comes out with the values as they are.
        header.write_text(re.sub(r"^static_assert\([^;]*\);", "", text, flags=re.MULTILINE))
        everywhere = self.is_in_headers(constant)
        moved: dict[str, str] = {}
        compiles, links = [], []
        for command in self.commands:
            if "simulat" in command and not simulator:
                continue
            words = shlex.split(command)
            if "-c" in words:
                target = words[words.index("-o") + 1]
                if constant.header not in self.depends.get(target, set()):
                    continue
                if not everywhere and constant.name not in Path(words[words.index("-c") + 1]).read_text():
                    continue
                moved[target] = str(place / target.replace("/", "_"))
                words = [word for word in words if word != "-MD"]
                for option in ("-MT", "-MF"):
                    at = words.index(option)
                    del words[at: at + 2]
                words[words.index("-o") + 1] = moved[target]
                first = next(at for at, word in enumerate(words) if word.startswith("-I"))
                compiles.append([*words[:first], f"-I{place}", *words[first:]])
            elif found := re.search(r"(?:\bqc|-o) (\S+)", command):
                links.append((found[1], command))
        with ThreadPoolExecutor(jobs) as pool:
            for done in pool.map(self.run, compiles):
                if done.returncode:
                    raise BenchError(f"{constant.name} = {value}: {done.stderr.strip()[-2000:]}")
        for target, command in links:
            words = re.split(r"(\s+)", command)
            if not any(word in moved for word in words):
                continue
            moved[target] = str(place / target.replace("/", "_"))
            done = subprocess.run("".join(moved.get(word, word) for word in words), shell=True, cwd=self.build_dir,
                                  capture_output=True, text=True)
            if done.returncode:
                raise BenchError(f"{constant.name} = {value}: {done.stderr.strip()[-2000:]}")
        return Build(Allocator("coffer", Path(moved[LIBRARY])), Path(moved.get(SIMULATOR, SIMULATOR)))

    def is_in_headers(self, constant: Constant) -> bool:
        """Whether every source that includes the constant's header has to be compiled anew: some header uses it. Else
        those that name it."""
        used = re.compile(rf"^(?!\s*//)(?:(?!//).)*\b{constant.name}\b", re.MULTILINE)
        headers = [path for path in (TOP / "src").rglob("*.hpp") if used.search(path.read_text())]
        elsewhere = any(path.parent.name != "policy" for path in headers)
        own = (TOP / POLICY / f"{constant.header}.hpp").read_text()
        return elsewhere or len(used.findall(own)) > 1

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=self.build_dir, capture_output=True, text=True)


def measure(build: Build, row: Row, programs: Path) -> float:
    return min(row.measure(build, programs) for _ in range(row.runs))


@dataclass(frozen=True)
class Base:
    figure: float
    spread: float  # between sets of runs, relative


def measure_base(build: Build, rows: list[Row], programs: Path) -> dict[str, Base]:
    base = {}
    for row in rows:
        figures = [measure(build, row, programs) for _ in range(1 if row.kind == "simulated" else 3)]
        base[row.name] = Base(min(figures), (max(figures) - min(figures)) / min(figures))
    return base


def changes(build: Build, rows: list[Row], base: dict[str, Base], programs: Path) -> dict[str, float]:
    """What differs by more than it differs by itself."""
    found = {}
    for row in rows:
        before = base[row.name]
        change = measure(build, row, programs) / before.figure - 1
        if abs(change) > max(LEAST[row.kind], before.spread):
            found[row.name] = change
    return found


def cell(found: dict[str, float]) -> str:
    return "; ".join(f"{name} {change:+.1%}" for name, change in found.items()) or "the same"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--only", metavar="TEXT", default="", help="constants whose name contains one of these (comma)")
    parser.add_argument("--rows", metavar="TEXT", default="", help="rows whose name contains one of these (comma)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what differs, with facts of the machine")
    return parser.parse_args()


def matches(name: str, wanted: str) -> bool:
    return any(text in name for text in wanted.split(","))


def main() -> int:
    arguments = parse_arguments()
    require_tools()
    chosen = [constant for constant in constants(TOP) if matches(constant.name, arguments.only)]
    rows = [row for row in ROWS if matches(row.name, arguments.rows)]
    if not chosen or not rows:
        raise BenchError("no constant or no row has such a name")
    place = arguments.build_dir.resolve()
    programs = place / "bench"
    built = Build(Allocator("coffer", place / LIBRARY), place / SIMULATOR)
    builder = Builder(arguments.build_dir)
    facts = machine_facts([built.allocator])
    print(describe(facts) + "\n")
    base = measure_base(built, rows, programs)
    print("| row | as it is | its runs differ by |\n|---|---:|---:|")
    for name, figure in base.items():
        print(f"| {name} | {figure.figure:,.4g} | {figure.spread:.1%} |")
    print("\n| constant | value | with half | with twice |\n|---|---|---|---|", flush=True)
    results = []
    for constant in chosen:
        applying = [row for row in rows if constant.header in row.headers]
        cells = {}
        for label, value in constant.neighbours().items():
            try:
                simulator = any(row.kind == "simulated" for row in applying)
                build = builder.variant(constant, label, value, arguments.jobs, simulator)
                found = changes(build, applying, base, programs)
                cells[label] = cell(found)
                results.append({"constant": constant.name, "neighbour": label, "changes": found})
            except BenchError as error:
                cells[label] = "cannot be built"
                print(error, file=sys.stderr)
        print(f"| `{constant.name}` | `{constant.value}` | {cells['half']} | {cells['double']} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"policy_sweep: {problem}")
