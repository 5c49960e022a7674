"""The sub-command profile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from coffer import places
from coffer.errors import CannotStart, CofferError
from coffer.live.figures import number, size
from coffer.profile import proto, symbols

SHOWN = 15
WHAT = {"inuse": ("inuse_objects", "inuse_space"), "alloc": ("alloc_objects", "alloc_space")}


def show(profile: proto.Profile, what: str) -> None:
    """The functions that most was allocated in, and below which."""
    names = symbols.names_of(profile)
    blocks_at, bytes_at = (profile.types.index(one) for one in WHAT[what])
    flat: dict[str, list[int]] = {}
    below: dict[str, int] = {}
    total = 0
    for locations, values in profile.samples:
        stack = [names.get(one, "?") for one in locations] or ["(no stack)"]
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
    try:
        status = subprocess.run(program, env=places.environment(last=options)).returncode
    except OSError as error:
        raise CannotStart(program[0], error) from error
    except KeyboardInterrupt:
        return 130
    return 128 - status if status < 0 else status


def is_rate(text: str) -> bool:
    """What the option profile_rate takes."""
    found = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    return found is not None and 1 <= int(found[1]) << 10 * " KMGT".index(found[2] or " ") <= 1 << 40


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
    if len(target) == 1 and target[0].isdecimal() and shutil.which(target[0]) is None:
        raise CofferError(f"{target[0]}: a program or a profile is wanted. A process that runs already writes one by "
                          "itself, at the signals that COFFER_CONF=profile_signal:N,dump_signal:M named at its start")
    with tempfile.TemporaryDirectory(prefix="coffer-profile-") as scratch:
        status = run_program(target, Path(scratch) / "coffer", rate)
        written = sorted(Path(scratch).iterdir(), key=lambda path: path.stat().st_mtime)
        if not written:
            print("coffer: the program wrote no profile: it was killed, ended by _exit, or does not run under a"
                  " preloaded library", file=sys.stderr)
            raise typer.Exit(status or 1)
        for path in written:
            found = proto.read(path)
            last = path is written[-1]
            to = output if output is not None and last else Path(path.name)
            if output is not None and not last:
                to = output.with_name(f"{output.name}.{path.name.split('.')[1]}")
            proto.write(to, proto.with_functions(found, symbols.names_of(found)))
            print(f"coffer: {to}", file=sys.stderr)
            if last and what != "none":
                show(found, what)
    raise typer.Exit(status)
