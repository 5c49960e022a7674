#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bugs put into the sources, one at a time, each of which a trial has to find (faults.toml).

  seeded.py --check              every text is in the sources, once
  seeded.py [--only NAME]...     builds a trial with each, and runs it until it fails
  seeded.py --results FILE       ... and writes them down, for run.py

Compiled and linked as the mutants are (test/mutants/run.py).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FEWEST = 60
WORLDS = 2000


def load_mutants_module():
    spec = importlib.util.spec_from_file_location("coffer_mutants", ROOT / "test/mutants/run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mutants = load_mutants_module()


def load() -> list[dict]:
    faults = tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))["fault"]
    known = {one.name: one for one in mutants.load()}
    for fault in faults:
        if "mutant" in fault:
            fault["edits"] = known[fault["mutant"]].edits
        else:
            fault["edits"] = [mutants.Edit(fault["file"], fault["before"], fault["after"])]
    return faults


def complaints(faults: list[dict]) -> list[str]:
    wrong = [] if len(faults) >= FEWEST else [f"fewer than {FEWEST} faults"]
    return wrong + mutants.text_complaints([(fault["name"], fault["edits"]) for fault in faults])


def run(program: Path, worlds: int, jobs: int = 1) -> str:
    """What the trial says of the worlds from seed 1 on."""
    return subprocess.run([str(program), "--seed", "1", "--worlds", str(worlds), "--shrink-seconds", "0", "--jobs",
                           str(jobs)], capture_output=True, text=True, check=False).stdout


def unchanged_complaints(build: Path, faults: list[dict], jobs: int) -> list[str]:
    """A fault is found only if the sources as they are pass the same worlds."""
    most = max(fault.get("worlds", WORLDS) for fault in faults)
    said = run(build / "test/trial/trial", most, jobs)
    return [] if f"\n{most} worlds, " in said and "FAILED" not in said else [f"without a fault: {said}"]


def hunt(fault: dict, builder) -> dict:
    start = time.monotonic()
    worlds, how = 0, ""
    with tempfile.TemporaryDirectory(prefix="coffer-trial-") as name:
        try:
            program = builder.make("trial", fault["edits"], Path(name))
            most = fault.get("worlds", WORLDS)
            found = re.search(r"^FAILED in the world of seed (\d+): (.*)$", run(program, most), re.MULTILINE)
            if found:
                worlds, how = int(found[1]), re.sub(r"/\S*/src/", "src/", found[2])  # no path of this machine
            else:
                how = f"not found in {most} worlds"
        except mutants.Broken as problem:
            how = str(problem)
    return {"name": fault["name"], "what": fault["what"], "file": fault["edits"][0].file, "worlds": worlds, "how": how,
            "seconds": time.monotonic() - start}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true", help="only whether the texts are there")
    parser.add_argument("--only", action="append", help="only this one (may be repeated)")
    parser.add_argument("--jobs", type=int, choices=range(1, 257), metavar="N", default=1)
    parser.add_argument("--results", type=Path, help="a file of JSON for what was found")
    arguments = parser.parse_args()
    faults = load()
    wrong = complaints(faults)
    wrong += [f"no fault {name}" for name in arguments.only or [] if name not in {one["name"] for one in faults}]
    chosen = [] if arguments.check else [one for one in faults if not arguments.only or one["name"] in arguments.only]
    if not arguments.check and not chosen:
        wrong.append("no fault was chosen")
    results = []
    if chosen and not wrong and not arguments.only:
        wrong = unchanged_complaints(arguments.build, chosen, arguments.jobs)
    if not wrong:
        builder = mutants.Builder(arguments.build.resolve())
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for one in pool.map(lambda fault: hunt(fault, builder), chosen):
                results.append(one)
                print(f"{one['name']:24} {one['worlds'] or 'SURVIVES':>8} {one['how'][:100]}", flush=True)
                if one["worlds"] == 0:
                    wrong.append(f"{one['name']} survives: {one['how']}")
    for line in wrong:
        print(f"trial: {line}", file=sys.stderr)
    print(f"trial: {len(faults)} faults listed, {len(chosen)} tried, {len(wrong)} complaints")
    if arguments.results and results:
        arguments.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
