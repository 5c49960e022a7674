#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what real programs do with their memory, as calls for sim/answers.c: record.py [--only NAME] [--calls N]
[--accesses N] [--folder FOLDER].

Each recipe runs one program under valgrind's lackey, which tells every instruction and every access to data; the marks
of sim/marks.c tell the calls. So the same program gives the same calls, gaps and accesses each time. The programs
count references (CPython), or mark and sweep (Lua, its collector stopped and run at a threshold). The more calls are
wanted, the more a program is given to do, and the more Lua's may have before it collects: so that it sweeps a few times
in any recording.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
BUILD = Path(os.environ.get("COFFER_HW_BUILD", TOP / "build" / "hw")).resolve()
PYTHON_PROGRAMS = TOP / "tools" / "traces" / "programs"
CALLS = 2000
# An allocation of this size says that the program proper begins.
BEGIN = 1_234_567
# Logic cycles of 200 MHz an instruction: a processor of 400 MHz that ends one a clock, as the thesis's would at best.
RATE = 0.5
SECONDS = 900


class RecordError(Exception):
    """What the user can mend, in one line."""


@dataclass(frozen=True)
class Recipe:
    what: str
    collector: str  # rcgc or msa
    command: Callable[[int], tuple[str, ...]]  # for so many calls
    begin: int = 0


def python(program: str, size: Callable[[int], int]) -> Recipe:
    path = PYTHON_PROGRAMS / f"{program}.py"
    what = path.read_text(encoding="utf-8").split('"""')[1].split(":")[0]

    def command(calls: int) -> tuple[str, ...]:
        # -S and -s leave the site out, so that what is installed changes nothing.
        # What is imported is there before the program proper begins.
        return ("python3", "-S", "-s", "-B", "-c",
                f"import collections, heapq, itertools, json, random, sys; sys.argv = ['{program}', '{size(calls)}']; "
                f"code = compile(open({str(path)!r}).read(), '{program}', 'exec'); bytearray({BEGIN - 1}); exec(code)")

    return Recipe(f"CPython: {what}", "rcgc", command, BEGIN)


def lua(program: str, limit: int) -> Recipe:
    path = HERE / "programs" / f"{program}.lua"
    what = path.read_text(encoding="utf-8").split(". ")[1].splitlines()[0].rstrip(".")

    def command(calls: int) -> tuple[str, ...]:
        return ("lua5.4", str(path), str(max(limit, calls // 100)), str(10 * calls + 20000))

    return Recipe(f"Lua, collections at a threshold: {what}", "msa", command)


RECIPES = {
    "trees_lua": lua("trees", 60),
    "words_lua": lua("words", 70),
    "events_lua": lua("events", 70),
    # A tree of 2^depth leaves, and as many again that come and go.
    "trees_python": python("trees", lambda calls: max(9, calls.bit_length() - 3)),
    "text_python": python("text", lambda calls: max(6000, calls // 20)),
    "events_python": python("events", lambda calls: max(600, calls // 50)),
}


def find(name: str) -> str:
    # Not a shim of some version manager: what the system has is the same for all.
    path = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
    if path is None:
        raise RecordError(f"{name} is missing: tools/setup.sh hw")
    return path


def built(name: str) -> Path:
    path = BUILD / name
    if not path.exists():
        raise RecordError(f"{path} is missing: cmake --build build --target coffer_hw_tests")
    return path


def record(name: str, calls: int, target: Path, rate: float = RATE, accesses: int | None = None) -> None:
    """Writes the calls, compressed; with what is loaded and stored before the first `accesses` of them (None: all)."""
    recipe = RECIPES[name]
    arguments = recipe.command(calls)
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0",
                   "LD_PRELOAD": str(built("marks.so")), "HOME": "/"}
    reader_program = built("accesses")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    read, write = os.pipe()
    # valgrind lays out the program's memory itself: addresses are the same each time, and so is what depends on them.
    command = [find("valgrind"), "--tool=lackey", "--trace-mem=yes", f"--log-fd={write}", "-q",
               find(arguments[0]), *arguments[1:]]
    with tempfile.TemporaryFile() as printed:
        program = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=printed, pass_fds=(write,), cwd="/")
        os.close(write)
        try:
            with subprocess.Popen([reader_program, str(calls), str(rate), str(recipe.begin),
                                   str(calls if accesses is None else accesses)], stdin=read,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
                os.close(read)
                assert reader.stdout is not None and reader.stderr is not None
                # No name and no time in it: the same calls are the same file.
                with unfinished.open("wb") as file, gzip.GzipFile("", "wb", 1, file, mtime=0) as out:
                    shutil.copyfileobj(reader.stdout, out, 1 << 20)
                message = reader.stderr.read().decode(errors="replace").strip()
            if reader.returncode != 0:
                # It is over, or else works on and says nothing more: valgrind does not mind that nobody reads.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(timeout=5)
                printed.seek(0)
                said = printed.read().decode(errors="replace").strip().splitlines()
                raise RecordError(f"{name}: {message}{'; the program: ' + said[-1] if said else ''}")
            os.replace(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
            program.kill()
            program.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", choices=RECIPES)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--accesses", type=int, help="loads and stores before so many calls only; without: before all")
    parser.add_argument("--folder", type=Path, default=BUILD / "report" / "calls")
    arguments = parser.parse_args()
    if arguments.calls < 1:
        parser.error("--calls: at least 1")
    for name in arguments.only or RECIPES:
        try:
            target = arguments.folder / f"{name}.calls.gz"
            record(name, arguments.calls, target, accesses=arguments.accesses)
            print(f"{target}: {RECIPES[name].what}", flush=True)
        except (RecordError, OSError, subprocess.SubprocessError) as error:
            print(f"record: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
