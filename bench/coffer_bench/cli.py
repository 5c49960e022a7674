# SPDX-License-Identifier: MIT
"""`coffer bench`: the command line. What is heavy is imported where it is needed."""

from __future__ import annotations

import functools
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from coffer import consoles
from coffer_bench.errors import BenchError

app = typer.Typer(
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"max_content_width": 100},
)
BUILD = typer.Option("--build-dir", envvar="COFFER_BUILD_DIR", help="Where programs and libraries were built.")
BuildDir = Annotated[Path, BUILD]
DEFAULT_BUILD = Path(__file__).resolve().parents[2] / "build"
INTERRUPTED = 130


def finite(value: float | None) -> float | None:
    """Of every number with a point: nan is neither below a limit nor above it."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number that can be used here")
    return value


def positive(value: float | None) -> float | None:
    if finite(value) is not None and value <= 0:
        raise typer.BadParameter(f"{value:g} is not above 0")
    return value


def listed(value: str | None) -> str | None:
    """What is given must name something, once: a script's empty variable shall not stand for everything."""
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(parts):
        raise typer.BadParameter(f"'{value}' has an empty entry")
    if twice := [part for part in dict.fromkeys(parts) if parts.count(part) > 1]:
        raise typer.BadParameter(f"{', '.join(twice)} is there twice")
    return value


def half_name(value: str) -> str:
    if value not in ("judge", "tune", "all"):
        raise typer.BadParameter(f"'{value}' is none of judge, tune and all")
    return value


def clock_name(value: str) -> str:
    if value not in ("wall", "cpu"):
        raise typer.BadParameter(f"'{value}' is neither wall nor cpu")
    return value


Clock = Annotated[str, typer.Option(metavar="wall|cpu", callback=clock_name, help="Which time: wall, or processor.")]


def beside(results: Path) -> Path:
    """The report's directory, where none was named."""
    if not results.name:
        raise typer.BadParameter(f"{results} is no file of samples")
    return results.with_suffix("") if results.suffix else results.with_name(f"{results.name}-report")


def need_checkout() -> None:
    """The workloads, their recipes and what they are compared with are no part of an installed command."""
    from coffer_bench.allocators import is_checkout

    if not is_checkout():
        raise BenchError("coffer bench needs a checkout of Coffer: there, make bench builds and runs it")


KEPT = "interrupted. The samples so far are kept: the same command goes on from there"


def interrupt(*_: object) -> None:
    """Not by SIGINT: a script's background commands ignore that."""
    raise KeyboardInterrupt


def guarded(function: Callable[..., None], said: str = "interrupted") -> Callable[..., None]:
    """Errors of the bench are one line and status 2; an interruption is 130, after every process has ended."""

    @functools.wraps(function)
    def run(*arguments: object, **options: object) -> None:
        signal.signal(signal.SIGTERM, interrupt)
        try:
            need_checkout()
            function(*arguments, **options)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            raise typer.Exit(2) from error
        except ModuleNotFoundError as error:
            print(
                f"bench: the Python package {error.name} is missing: make bench installs what is needed",
                file=sys.stderr,
            )
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            print(f"bench: {said}", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from error

    return run


def make_console() -> Console:
    return consoles.console()


@app.callback()
def bench(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", envvar="QUICK", help="Under five minutes, all workloads smaller.")
    ] = False,
    only: Annotated[str, typer.Option(metavar="TEXT;TEXT", help="Workloads whose name contains one of these.")] = "",
    groups: Annotated[str, typer.Option(metavar="NAMES", help="Workloads of these groups; `list` shows them.")] = "",
    names: Annotated[
        Optional[str],
        typer.Option("--allocators", metavar="NAMES", callback=listed, help="Default: all that are installed."),
    ] = None,
    threads: Annotated[
        Optional[str],
        typer.Option(metavar="N,N", callback=listed, help="Thread counts, instead of 1, 2, 4 … processors."),
    ] = None,
    rounds: Annotated[Optional[int], typer.Option(min=1, help="At most; default 7, quick 3.")] = None,
    minutes: Annotated[
        Optional[float], typer.Option(callback=positive, help="Ends then, with fewer rounds; default 55, quick 4.5.")
    ] = None,
    scale: Annotated[
        float,
        typer.Option(envvar="SCALE", min=1e-4, callback=finite, help="Shrinks the experiments; the report says so."),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the order of allocators.")] = 1,
    clock: Clock = "wall",
    passes: Annotated[
        bool, typer.Option(help="Also latencies, instructions, misses and simulated cores.")
    ] = True,
    results: Annotated[Optional[Path], typer.Option(help="The samples; default build/bench/results/….jsonl.")] = None,
    report: Annotated[Optional[Path], typer.Option(help="Directory of the report; default beside the samples.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on with an interrupted run.")] = False,
    build_dir: BuildDir = DEFAULT_BUILD,
) -> None:
    """Measures Coffer beside other allocators, and writes a report. Without a command: everything."""
    if context.invoked_subcommand is None:
        run_all(
            Options(
                quick,
                only,
                groups,
                names or "",
                threads or "",
                rounds,
                minutes,
                scale,
                seed,
                clock,
                passes,
                results,
                report,
                fresh,
                build_dir,
            )
        )


class Options:
    """The options of a run, as they were given."""

    def __init__(
        self,
        quick: bool,
        only: str,
        groups: str,
        names: str,
        threads: str,
        rounds: int | None,
        minutes: float | None,
        scale: float,
        seed: int,
        clock: str,
        passes: bool,
        results: Path | None,
        report: Path | None,
        fresh: bool,
        build_dir: Path,
    ) -> None:
        self.quick, self.only, self.groups, self.names, self.seed = quick, only, groups, names, seed
        self.rounds, self.minutes = rounds or (3 if quick else 7), minutes or (4.5 if quick else 55.0)
        self.scale, self.clock, self.passes, self.fresh, self.build_dir = scale, clock, passes, fresh, build_dir
        try:
            self.threads = tuple(int(count) for count in threads.split(",")) if threads else ()
        except ValueError as error:
            raise typer.BadParameter(f"--threads {threads}: numbers with commas between them") from error
        if any(count < 1 for count in self.threads):
            raise typer.BadParameter("--threads: at least 1")
        default = build_dir / "bench" / "results" / ("quick.jsonl" if quick else "full.jsonl")
        self.results = results or default
        self.report = report or beside(self.results)


@functools.partial(guarded, said=KEPT)
def run_all(options: Options) -> None:
    from coffer_bench import session

    session.run(options, make_console())


@app.command("list")
@guarded
def list_workloads(
    quick: Annotated[bool, typer.Option("--quick")] = False, build_dir: BuildDir = DEFAULT_BUILD
) -> None:
    """Every workload, with its group; and the allocators."""
    from coffer_bench import session

    session.show_list(quick, build_dir, make_console())


@app.command()
@guarded
def peers(
    check: Annotated[bool, typer.Option("--check", help="Installs nothing; only verifies.")] = False,
    build_dir: BuildDir = DEFAULT_BUILD,
) -> None:
    """Installs the allocators that Coffer is compared with, and verifies that each is really loaded."""
    from coffer_bench import session

    session.show_peers(check, build_dir, make_console())


@app.command()
@guarded
def programs(check: Annotated[bool, typer.Option("--check", help="Installs nothing.")] = False) -> None:
    """Installs the real programs that are workloads, and says which are there."""
    from coffer_bench import session

    session.show_programs(check, make_console())


@app.command("report")
@guarded
def make_report(
    results: Annotated[Path, typer.Argument(help="A file of samples, also of an unfinished run.")],
    directory: Annotated[Optional[Path], typer.Argument(help="Default: beside it.")] = None,
    clock: Clock = "wall",
) -> None:
    """Writes the report of samples anew: index.html, report.md and pictures."""
    from coffer_bench import report

    target = directory or beside(results)
    report.write(results, target, clock)
    print(f"{target}/index.html")


@app.command()
@guarded
def figures(
    results: Annotated[
        Optional[Path], typer.Argument(help="A file of samples; default: of the last `make bench`, whole or quick.")
    ] = None,
    clock: Clock = "cpu",
    build_dir: BuildDir = DEFAULT_BUILD,
) -> None:
    """Writes what the documents show of a run: docs/results/bench.*, the picture, and the figures of README.md."""
    from coffer_bench import front
    from coffer_bench.allocators import TOP

    for path in front.write(results or latest(build_dir), clock, TOP):
        print(path)


def latest(build_dir: Path) -> Path:
    found = [build_dir / "bench" / "results" / name for name in ("full.jsonl", "quick.jsonl")]
    found = [path for path in found if path.exists()]
    if not found:
        raise BenchError("there are no samples yet: make bench, or make bench QUICK=1")
    return max(found, key=lambda path: path.stat().st_mtime)


@app.command()
@guarded
def simulate(
    names: Annotated[
        Optional[str],
        typer.Option("--allocators", metavar="NAMES", callback=listed, help="Default: all that are built."),
    ] = None,
    workloads: Annotated[
        Optional[str],
        typer.Option("--workload", metavar="NAMES", callback=listed, help="Default: all."),
    ] = None,
    cores: Annotated[
        str, typer.Option(metavar="N..N", callback=listed, help="Powers of two: 1..128, or 1,8,64.")
    ] = "1..128",
    seed: Annotated[int, typer.Option(min=0, help="The same one gives the same figures.")] = 1,
    scale: Annotated[float, typer.Option(min=0.001, max=100, help="Shrinks the experiments.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each run, with all counts.")] = False,
    build_dir: BuildDir = DEFAULT_BUILD,
) -> None:
    """Scaling on a simulated machine of up to 128 cores: speed-up, and the cache lines that cores wait for."""
    from coffer_bench import scaling

    scaling.run(names or "", workloads or "", cores, seed, scale, as_json, build_dir, make_console())


@app.command()
@guarded
def drawn(
    half: Annotated[
        str,
        typer.Option(metavar="judge|tune|all", callback=half_name, help="Which seeds. Look at those that tune only."),
    ] = "judge",
    seeds: Annotated[
        Optional[str], typer.Option(metavar="N,N..N", callback=listed, help="These in place of a half.")
    ] = None,
    names: Annotated[
        Optional[str],
        typer.Option("--allocators", metavar="NAMES", callback=listed, help="Default: all that are installed."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Of each seed; their median counts.")] = 1,
    jobs: Annotated[Optional[int], typer.Option(min=1, help="Processes at a time; default: processors.")] = None,
    results: Annotated[
        Optional[Path], typer.Option(help="The samples; default build/bench/results/drawn-….json.")
    ] = None,
    report: Annotated[Optional[Path], typer.Option(help="The report; default beside the samples.")] = None,
    build_dir: BuildDir = DEFAULT_BUILD,
) -> None:
    """Memory of programs drawn at random, over the best other allocator's, seed by seed. Minutes."""
    from coffer_bench import drawn_report

    jobs = jobs or len(os.sched_getaffinity(0))
    drawn_report.run(
        drawn_report.Options(half, seeds or "", names or "", runs, jobs, results, report, build_dir), make_console()
    )


@app.command()
@functools.partial(guarded, said=KEPT)
def compare(
    old: Annotated[str, typer.Argument(help="A file of samples, a commit of Coffer, or a library's path.")],
    new: Annotated[str, typer.Argument(help="Another of the same kind.")],
    only: Annotated[str, typer.Option(metavar="TEXT;TEXT", help="Workloads whose name contains one of these.")] = "",
    rounds: Annotated[int, typer.Option(min=2, help="Of two libraries or commits.")] = 9,
    minutes: Annotated[float, typer.Option(callback=positive, help="Of two libraries or commits: at most.")] = 10,
    threshold: Annotated[
        float, typer.Option(min=0, callback=finite, help="Smaller differences are left out, in percent.")
    ] = 2.0,
    clock: Clock = "cpu",
    results: Annotated[
        Optional[Path],
        typer.Option(help="The samples of two libraries or commits; default …/results/compare-OLD-NEW.jsonl."),
    ] = None,
    build_dir: BuildDir = DEFAULT_BUILD,
) -> None:
    """What became slower or larger, beyond noise. Status 1 if something did."""
    from coffer_bench import comparison

    worse = comparison.run(
        old, new, comparison.Options(only, rounds, minutes, threshold / 100, clock, build_dir, results), make_console()
    )
    if worse:
        raise typer.Exit(1)
