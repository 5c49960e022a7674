# SPDX-License-Identifier: MIT
"""The sub-command profile."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from coffer import loading, places, signals
from coffer.errors import CofferError
from coffer.files import check_inputs, programs_files, whole
from coffer.heap import owners
from coffer.live.figures import number, size
from coffer.profile import proto, symbols

SHOWN = 15
WHAT = {"inuse": ("inuse_objects", "inuse_space"), "alloc": ("alloc_objects", "alloc_space")}


def without_interpreter(profile: proto.Profile, locations: list[int]) -> list[int]:
    """Where Python functions are named, those of the interpreter say no more."""
    if not profile.lines.keys() & set(locations):
        return locations
    own = {identity for identity, mapping in profile.mappings.items() if owners.PYTHON.match(Path(mapping.path).name)}
    return [one for one in locations if one not in profile.locations or profile.locations[one][0] not in own]


def show(profile: proto.Profile, what: str) -> None:
    """The functions that most was allocated in, and below which."""
    names = symbols.names_of(profile)
    blocks_at, bytes_at = (profile.types.index(one) for one in WHAT[what])
    flat: dict[str, list[int]] = {}
    below: dict[str, int] = {}
    total = 0
    for locations, values in profile.samples:
        stack = [names.get(one, "?") for one in without_interpreter(profile, locations)] or ["(no stack)"]
        own = flat.setdefault(stack[0], [0, 0])
        own[0] += values[blocks_at]
        own[1] += values[bytes_at]
        total += values[bytes_at]
        for name in set(stack):
            below[name] = below.get(name, 0) + values[bytes_at]
    kind = "live" if what == "inuse" else "allocated"
    print(f"{size(total)} {kind}; a sample each {size(profile.period)}")
    print("  bytes  blocks  with callees  function")
    for name in sorted(below, key=lambda one: (-flat.get(one, [0, 0])[1], -below[one]))[:SHOWN]:
        if below[name] == 0:
            continue
        blocks, own_bytes = flat.get(name, [0, 0])
        print(f"{size(own_bytes):>7} {number(blocks):>7} {size(below[name]):>13}  {name}")


def run_program(program: list[str], prefix: Path, rate: str) -> int:
    options = f"profile:true,profile_rate:{rate},profile_to:{prefix}"
    loading.tell("profile", program[0])
    with signals.started(program, places.environment(last=options)) as process:
        return signals.status_of(process)


def names_for(written: list[Path], output: Path | None) -> list[Path]:
    """Where profiles go that the library called PREFIX.PID.N.pb.gz; the last one is the one that was asked for."""
    if output is None:
        return [Path(path.name) for path in written]
    parts = [path.name.split(".") for path in written]
    pids = [part[1] for part in parts[:-1]]
    others = [f"{output.name}.{part[1]}" + (f".{part[2]}" if pids.count(part[1]) > 1 else "") for part in parts[:-1]]
    return [*(output.with_name(name) for name in others), output]


def keep(written: list[Path], targets: list[Path]) -> bool:
    """Before their functions are looked for, which takes time, in which the command may be ended."""
    done = True
    for path, target in zip(written, targets):
        try:
            with whole(target) as unfinished:
                shutil.copyfile(path, unfinished)
        except CofferError as error:
            print(f"coffer: {error}: the profile is {path}", file=sys.stderr)
            done = False
    return done


def name_functions(written: list[Path], targets: list[Path], what: str) -> None:
    for path, target in zip(written, targets):
        found = proto.read(path)
        proto.write(target, proto.with_functions(found, symbols.names_of(found)))
        print(f"coffer: {target}", file=sys.stderr)
        if path is written[-1] and what != "none":
            show(found, what)


def profile_program(program: list[str], output: Path | None, rate: str, what: str) -> int:
    scratch = Path(tempfile.mkdtemp(prefix="coffer-profile-"))
    kept = True
    try:
        status = run_program(program, scratch / "coffer", rate)
        written = sorted(scratch.glob("*.pb.gz"),
                         key=lambda path: (path.stat().st_mtime_ns, int(path.name.split(".")[2])))
        if not written:
            print("coffer: the program wrote no profile: it was killed, ended by _exit, or does not run under a"
                  " preloaded library", file=sys.stderr)
            return status or 1
        targets = names_for(written, output)
        kept = keep(written, targets)
        if not kept:
            return status or 1
        try:
            name_functions(written, targets, what)
        except KeyboardInterrupt:
            print(f"coffer: interrupted; {len(written)} profiles are kept, the last as {targets[-1]}, some without"
                  " names of functions", file=sys.stderr)
            return 130
        return status
    finally:
        if kept:
            shutil.rmtree(scratch, ignore_errors=True)


def rate_of(text: str) -> int | None:
    """Bytes, of what the option profile_rate takes."""
    found = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    bytes_ = int(found[1]) << 10 * " KMGT".index(found[2] or " ") if found else 0
    return bytes_ if 1 <= bytes_ <= 1 << 40 else None


def is_rate(text: str) -> bool:
    return rate_of(text) is not None


def is_profile(target: str) -> bool:
    """By its name; or it is a file that cannot be a program, and reading it says what is wrong."""
    return target.endswith(".pb.gz") or (Path(target).is_file() and not os.access(target, os.X_OK))


def profile(
    target: Annotated[list[str], typer.Argument(
        metavar="PROGRAM [ARGUMENT]... | PROFILE", show_default=False,
        help="A program and its arguments, after --; or a profile to show.")],
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="Where the profile goes.",
                                                   show_default="coffer.PID.N.pb.gz for each process")] = None,
    rate: Annotated[str, typer.Option(help="Mean bytes between samples: 64K, 1 for every block.")] = "512K",
    what: Annotated[Literal["inuse", "alloc", "none"], typer.Option(
        "--show", help="What is live, what was allocated, or nothing.")] = "inuse",
) -> None:
    """A heap profile of a program, for pprof and speedscope, with the names of functions in it."""
    if not is_rate(rate):
        raise CofferError(f"--rate {rate}: a size from 1 to 1T, such as 512K")
    if len(target) == 1 and is_profile(target[0]):
        found = proto.read(Path(target[0]))
        proto.write(output or Path(target[0]), proto.with_functions(found, symbols.names_of(found)))
        if what != "none":
            show(found, what)
        return
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise CofferError(f"{output}: {'is a directory' if output.is_dir() else 'no such directory'}")
    if output is not None:
        check_inputs(output, programs_files(target))
    if len(target) == 1 and target[0].isdecimal() and shutil.which(target[0]) is None:
        raise CofferError(f"{target[0]}: a program or a profile is wanted. A process that runs already is asked by"
                          " coffer heap --pid, which shows what it holds; -o keeps the profile")
    raise typer.Exit(profile_program(target, output, rate, what))
