#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutants: edits of policy and accounting, each of which a test has to find (README.md).

  run.py --check                   every text of mutants.toml is in the sources, once
  run.py --sample                  the same, and the few mutants that are quick
  run.py [--only NAME]... [--write]   all of them, or some; --write: the table of README.md

A mutant is compiled apart from the build directory, whose objects it is linked with: only what its edit reaches is
compiled. Its tests run in their order until one fails; that one has found it. The programs without a mutant have to
pass first.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FEWEST = 40
SECONDS = 120  # a test that takes longer hangs, and has found the mutant

# What can find a mutant. Left out are tests of other things that take minutes.
PROGRAMS = {
    "unit_exchange": ("test/unit/unit_exchange", ["--gtest_filter=-VanishAnywhere*:SeizeStress*:Fork*:Vanished*"]),
    "unit_heap": ("test/unit/unit_heap", []),
    "unit_inspect": ("test/unit/unit_inspect", ["--gtest_filter=Check*:Statistics*"]),
    "unit_large": ("test/unit/unit_large", []),
    "unit_mixed": ("test/unit/unit_mixed", []),
    "unit_pool": ("test/unit/unit_pool", []),
    "unit_span": ("test/unit/unit_span", []),
    # coffer_check after many threads.
    "stress": ("stress", ["ring", "--percent", "20"]),
    "churn": ("stress", ["thread_churn", "--percent", "20"]),
    # The inequality after every operation.
    "stepwise": ("property_bound_each_step", ["--rounds", "2", "--ops", "50000"]),
}
LAST = ["stress", "churn", "stepwise"]
OPTIONS = {"stepwise": "shards:4,strict:true"}


class Edit(NamedTuple):
    file: str
    before: str
    after: str


class Mutant(NamedTuple):
    name: str
    what: str
    edits: list[Edit]
    tests: list[str]
    sample: bool


class Found(NamedTuple):
    mutant: Mutant
    by: str  # "" if nothing found it
    how: str
    seconds: float


class Broken(Exception):
    pass


def load() -> list[Mutant]:
    data = tomllib.loads((HERE / "mutants.toml").read_text(encoding="utf-8"))
    texts = {entry["name"]: entry for entry in data["mutant"]}
    mutants = []
    for entry in data["mutant"]:
        sources = [texts[name] for name in entry["of"]] if "of" in entry else [entry]
        edits = [Edit(source["file"], source["before"], source["after"]) for source in sources]
        mutants.append(Mutant(entry["name"], entry["what"], edits, entry["tests"], entry.get("sample", False)))
    return mutants


def text_complaints(edits_of: list[tuple[str, list[Edit]]]) -> list[str]:
    """Of edits by name: each name is there once, and so is each text, which is changed."""
    names = [name for name, _ in edits_of]
    wrong = [f"{name}: twice" for name in sorted(set(names)) if names.count(name) > 1]
    for name, edits in edits_of:
        for edit in edits:
            path = ROOT / edit.file
            times = path.read_text(encoding="utf-8").count(edit.before) if path.is_file() else 0
            if times != 1:
                wrong.append(f"{name}: its text is {times} times in {edit.file}")
            if edit.before == edit.after:
                wrong.append(f"{name}: changes nothing")
    return wrong


def complaints(mutants: list[Mutant]) -> list[str]:
    wrong = text_complaints([(mutant.name, mutant.edits) for mutant in mutants])
    if len(mutants) < FEWEST:
        wrong.append(f"fewer than {FEWEST} mutants")
    for mutant in mutants:
        wrong += [f"{mutant.name}: no test {test}" for test in mutant.tests if test not in PROGRAMS]
    return wrong


class Builder:
    """Compiles and links with one changed file or more, by the commands of the build directory."""

    def __init__(self, build: Path) -> None:
        self.build = build
        self.known: dict[str, list[str]] = {}
        self.users: dict[str, set[str]] = {}

    def commands(self, target: str) -> list[str]:
        if target not in self.known:
            done = subprocess.run(["ninja", "-t", "commands", target], cwd=self.build, capture_output=True, text=True,
                                  check=True)
            self.known[target] = done.stdout.splitlines()
        return self.known[target]

    def including(self, file: Path) -> set[str]:
        """Objects that were compiled from the source or with the header."""
        if not self.users:
            done = subprocess.run(["ninja", "-t", "deps"], cwd=self.build, capture_output=True, text=True, check=True)
            built = ""
            for line in done.stdout.splitlines():
                if line.startswith("    "):
                    path = str((self.build / line.strip()).resolve())
                    self.users.setdefault(path, set()).add(built)
                elif ":" in line:
                    built = line.split(":")[0]
        return self.users.get(str(file), set())

    @staticmethod
    def overlaid(source: Path, edits: list[Edit], overlay: Path) -> Path:
        """What is compiled for it: its changed copy; or that of the file by which CMake compiles several as one, which
        names them by whole paths."""
        for edit in edits:
            if source == ROOT / edit.file:
                return overlay / edit.file
        text = source.read_text(encoding="utf-8")
        changed = text
        for edit in edits:
            changed = changed.replace(f'#include "{ROOT / edit.file}"', f'#include "{overlay / edit.file}"')
        if changed == text:
            return source
        copy = overlay / source.parent.name / source.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(changed, encoding="utf-8")
        return copy

    def make(self, target: str, edits: list[Edit], directory: Path) -> Path:
        overlay = directory / "overlay"
        reached: set[str] = set()
        for edit in edits:
            copy = overlay / edit.file
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = (copy if copy.exists() else ROOT / edit.file).read_text(encoding="utf-8")
            copy.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
            reached |= self.including(ROOT / edit.file)
        commands = self.commands(target)
        link = commands[-1]
        program = directory / Path(target).name
        extra = []
        for command in commands[:-1]:
            source = re.search(r" -c (\S+)$", command)
            into = re.search(r" -o (\S+)", command)
            if not source or not into or into[1] not in reached:
                continue
            thing = directory / into[1].replace("/", "_")
            if not thing.exists():
                words = shlex.split(command)
                words = [word for word in words if word not in ("-MD", "-Werror")]
                for flag in ("-MT", "-MF"):
                    at = words.index(flag)
                    del words[at:at + 2]
                words[words.index("-o") + 1] = str(thing)
                words[-1] = str(self.overlaid(Path(source[1]), edits, overlay))
                words[1:1] = ["-w", f"-I{overlay}/src"]
                self.call(words)
            if f" {into[1]} " in link:
                link = link.replace(f" {into[1]} ", f" {thing} ")
            else:
                extra.append(str(thing))
        if not extra and link == commands[-1]:
            raise Broken(f"the edit reaches nothing of {target}")
        link = re.sub(r" -o \S+", lambda _: f" {' '.join(extra)} -o {program} ", link, count=1)
        self.call(["sh", "-c", link])
        return program

    def call(self, words: list[str]) -> None:
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"it does not build: {done.stderr[-1500:]}")


def run(program: Path, test: str) -> tuple[bool, str]:
    """Whether it failed, and in what."""
    options = OPTIONS.get(test, "strict:true")
    # Of its own group, so that children that hang go with it.
    with subprocess.Popen([str(program), *PROGRAMS[test][1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", start_new_session=True,
                          env={"COFFER_CONF": options, "PATH": "/usr/bin:/bin"}) as process:
        try:
            output = process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
            running = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
            return True, f"hangs: {running[-1]}" if running else "hangs"
    if process.returncode == 0:
        return False, ""
    failed = re.search(r"^\[  FAILED  \] (\S+?)(,| \()", output, re.MULTILINE)
    checked = re.search(r"coffer: check: ([^\n,]*)", output)
    if failed:
        return True, failed[1]
    return True, f"coffer_check: {checked[1]}" if checked else f"ends with {process.returncode}"


def hunt(mutant: Mutant, builder: Builder) -> Found:
    start = time.monotonic()
    try:
        by, how = hunt_in(mutant, builder)
    except Broken as problem:
        by, how = "", str(problem)
    return Found(mutant, by, how, time.monotonic() - start)


def hunt_in(mutant: Mutant, builder: Builder) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="coffer-mutant-") as name:
        made: dict[str, Path] = {}
        for test in [*mutant.tests, *(test for test in LAST if test not in mutant.tests)]:
            target = PROGRAMS[test][0]
            if target not in made:
                made[target] = builder.make(target, mutant.edits, Path(name))
            failed, how = run(made[target], test)
            if failed:
                return test, how
    return "", ""


def write_table(found: list[Found]) -> None:
    path = HERE / "README.md"
    text = path.read_text(encoding="utf-8")
    rows = [f"| {one.mutant.what} | `{Path(one.mutant.edits[0].file).name}` | `{one.by}` | {one.how} |"
            for one in found]
    table = "\n".join(["| edit | of | found by | there |", "|---|---|---|---|", *rows])
    head = text.split("<!-- table -->")[0]
    path.write_text(f"{head}<!-- table -->\n\n{table}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true", help="only whether the texts are there")
    parser.add_argument("--sample", action="store_true", help="only the quick ones")
    parser.add_argument("--only", action="append", help="only this one (may be repeated)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the table of README.md")
    arguments = parser.parse_args()
    mutants = load()
    wrong = complaints(mutants)
    chosen = [one for one in mutants if (not arguments.sample or one.sample)
              and (not arguments.only or one.name in arguments.only)]
    if arguments.check:
        chosen = []
    elif not chosen:
        wrong.append("no mutant was chosen")
    builder = Builder(arguments.build.resolve())
    found: list[Found] = []
    if not wrong:
        if not arguments.sample:
            for test in sorted({test for one in chosen for test in [*one.tests, *LAST]}):
                program = builder.build / re.search(r" -o (\S+)", builder.commands(PROGRAMS[test][0])[-1])[1]
                failed, how = run(program, test)
                if failed:
                    wrong.append(f"{test} fails without a mutant: {how}")
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for one in pool.map(lambda mutant: hunt(mutant, builder), chosen if not wrong else []):
                found.append(one)
                verdict = one.by or "SURVIVES"
                print(f"{one.mutant.name:26} {verdict:14} {one.how:66} {one.seconds:5.1f} s", flush=True)
                if not one.by:
                    wrong.append(f"{one.mutant.name} survives: {one.how}")
    for line in wrong:
        print(f"mutants: {line}", file=sys.stderr)
    print(f"mutants: {len(mutants)} listed, {len(chosen)} tried, {len(wrong)} complaints")
    if arguments.write and not wrong and len(found) == len(mutants):
        write_table(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
