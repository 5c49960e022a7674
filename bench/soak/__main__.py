# SPDX-License-Identifier: MIT
"""python -m soak: what `make soak` runs. Programs under load for hours; the file of results, and the page."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from coffer import signals
from coffer_bench import allocators as known
from coffer_bench import peers, samples
from coffer_bench.allocators import TOP, Allocator
from coffer_bench.errors import BenchError, Unavailable

from soak import memory, page, turns
from soak.programs import PROGRAMS, Soaked
from soak.results import Log
from soak.verdicts import FAILS, verdicts


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").split("\n")[0])
    names = ",".join(one.name for one in PROGRAMS)
    parser.add_argument("--hours", type=float, default=1.0, help="of the whole run; fractions count")
    parser.add_argument("--programs", default=names, help=f"some of {names}")
    parser.add_argument("--allocators", default="coffer,glibc,jemalloc,mimalloc3", help="for the latencies")
    parser.add_argument("--beside", default="", help="allocators under which memory is watched, too, such as glibc")
    parser.add_argument("--together", action="store_true", help="memory of all programs at a time")
    parser.add_argument("--memory-share", type=float, default=page.MEMORY_SHARE,
                        help="of the time; the rest is latencies")
    parser.add_argument("--no-machine", action="store_true", help="leave the machine's setting of huge pages alone")
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    parser.add_argument("--results", type=Path, help="the file of results (default: build/soak/TIME.jsonl)")
    parser.add_argument("--report", action="store_true", help="write docs/results/soak.md and its picture, too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="only write the page of this file of results")
    parser.add_argument("--latencies", type=Path, metavar="FILE",
                        help="with --page: latencies of another run, which the machine had for itself")
    return parser.parse_args()


def choose(names: str) -> tuple[list[Soaked], dict[str, str]]:
    """The programs of these names that can be run, and why others cannot."""
    wanted, missing = [], {}
    for name in filter(None, names.split(",")):
        (program,) = [one for one in PROGRAMS if one.name == name] or [None]
        if program is None:
            raise BenchError(f"no program is called {name}; there are: {' '.join(one.name for one in PROGRAMS)}")
        try:
            program.require()
            wanted.append(program)
        except Unavailable as error:
            missing[name] = str(error)
    if not wanted:
        raise BenchError("; ".join(missing.values()) or "no programs")
    return wanted, missing


def find(names: str, build_dir: Path) -> list[Allocator]:
    """Those from crates are built where they are not there yet."""
    wanted = list(filter(None, names.split(",")))
    crates = [one for one in wanted if one in known.CRATES and not known.crate_library(one, build_dir).exists()]
    if crates:
        _, why = peers.build(build_dir, names=crates)
        if why:
            raise BenchError(f"{why}; --allocators without it goes on")
    return known.find(wanted, build_dir)


def soak(options: argparse.Namespace, programs: list[Soaked], missing: dict[str, str], path: Path) -> None:
    compared = find(options.allocators, options.build_dir)
    watched = find(",".join(filter(None, ["coffer", options.beside])), options.build_dir)
    everyone = {one.name: one for one in [*compared, *watched]}
    header = {
        "machine": known.machine_facts(list(everyone.values())),
        "versions": {name: peers.version(one, options.build_dir) for name, one in everyone.items()},
        "programs": {one.name: one.what for one in programs},
        "missing": missing,
        "plan": {
            "hours": options.hours, "programs": [one.name for one in programs], "together": options.together,
            "allocators": [one.name for one in compared], "watched": [one.name for one in watched],
            "memory_share": options.memory_share,
        },
    }
    log = Log(path, header)
    cut = True
    try:
        with tempfile.TemporaryDirectory(prefix="coffer-soak-") as name:
            Path(name).chmod(0o755)
            run(options, programs, compared, watched, Path(name), log)
        cut = False
    finally:
        log.append({"kind": "end", "cut": cut, "load": os.getloadavg()[0]})
        log.close()


def run(options: argparse.Namespace, programs: list[Soaked], compared: list[Allocator], watched: list[Allocator],
        folder: Path, log: Log) -> None:
    began = time.monotonic()
    prepared = []
    for program in programs:
        inputs = folder / program.name
        inputs.mkdir()
        inputs.chmod(0o755)
        program.prepare(inputs)
        prepared.append((program, inputs))
    seconds = options.hours * 3600 * options.memory_share
    batches = [prepared] if options.together else [[one] for one in prepared]
    if seconds > 0:
        each = seconds / len(batches) / len(watched)
        for batch in batches:
            for allocator in watched:
                names = ", ".join(program.name for program, _ in batch)
                log.say(f"memory of {names} under {allocator.name}: {each / 60:.1f} minutes")
                memory.run_together(batch, allocator, each, log, not options.no_machine)
    left = options.hours * 3600 - (time.monotonic() - began)
    if options.memory_share < 1:
        log.say(f"latencies under {', '.join(one.name for one in compared)}: {max(0.0, left) / 60:.1f} minutes")
        turns.run_all(prepared, compared, max(0.0, left), log)


def tell(path: Path, options: argparse.Namespace) -> int:
    """Writes the page, and says what it says. Status 1: some program failed."""
    results = samples.read(path)
    if options.latencies:
        results = page.with_latencies(results, samples.read(options.latencies))
    written = [page.write(results, options.build_dir / "soak")]
    if options.report:
        written.append(page.write(results, TOP / "docs" / "results"))
    found = verdicts(results)
    for one in found:
        print(f"{one.program}: {one}")
    print(f"wrote {path}, {', '.join(map(str, written))}")
    return 1 if any(one.word == FAILS for one in found) else 0


def main() -> int:
    options = arguments()
    signals.put_away_first()
    try:
        if options.page:
            return tell(options.page, options)
        path = options.results or options.build_dir / "soak" / time.strftime("%Y%m%d-%H%M%S.jsonl", time.gmtime())
        programs, missing = choose(options.programs)
        for name, why in missing.items():
            print(f"soak: without {name}: {why}", file=sys.stderr)
        try:
            soak(options, programs, missing, path)
        except KeyboardInterrupt:
            print("soak: ended early; what was measured is kept", file=sys.stderr)
            with contextlib.suppress(BenchError):
                tell(path, options)
            return 130
        return tell(path, options)
    except BenchError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
