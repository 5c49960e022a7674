#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""glibc's own tests of malloc, compiled outside its tree and run over the library under test.

The sources are Debian's package of the C library that this machine has. COFFER_GLIBC_SOURCE names a directory with
them (unpacked, or as `apt-get source --download-only` leaves them); else apt fetches them into --cache, from the
package sources that this machine has. Where neither can be had the test is skipped.

A test that fails over the C library's own malloc, too (another version, a sandbox), says nothing and does not count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import apt_source  # noqa: E402
import driver  # noqa: E402

HERE = Path(__file__).resolve().parent

# What every malloc owes its programs.
PUBLIC = """mallocbug tst-calloc tst-free-errno tst-mallinfo2 tst-malloc tst-malloc-fork-deadlock
tst-malloc-stats-cancellation tst-malloc-tcache-leak tst-malloc-thread-exit tst-malloc-thread-fail
tst-malloc-too-large tst-malloc_info tst-mallocfork tst-mallocfork2 tst-mallocfork3 tst-mallopt
tst-memalign tst-mxfast tst-obstack tst-posix_memalign tst-pvalloc tst-realloc tst-reallocarray
tst-tcfree1 tst-tcfree2 tst-tcfree3 tst-trim1 tst-valloc""".split()

# The others, and why they are not asked.
INTERNAL = {
    "tst-alloc_buffer": "a structure of glibc's own code, no malloc",
    "tst-dynarray": "as tst-alloc_buffer",
    "tst-dynarray-at-fail": "as tst-alloc_buffer",
    "tst-dynarray-fail": "as tst-alloc_buffer; mtrace",
    "tst-scratch_buffer": "as tst-alloc_buffer",
    "tst-compathooks-off": "the hooks that glibc had",
    "tst-compathooks-on": "as tst-compathooks-off",
    "tst-interpose-nothread": "brings a malloc of its own",
    "tst-interpose-static-nothread": "as tst-interpose-nothread",
    "tst-interpose-static-thread": "as tst-interpose-nothread",
    "tst-interpose-thread": "as tst-interpose-nothread",
    "tst-malloc-backtrace": "glibc's check of its own top chunk",
    "tst-malloc-check": "MALLOC_CHECK_ of libc_malloc_debug",
    "tst-malloc-usable": "MALLOC_CHECK_: the usable size is what was asked for; Coffer's is the size class",
    "tst-malloc-usable-tunables": "as tst-malloc-usable",
    "tst-mallocalign1": "the size of glibc's chunk headers",
    "tst-mallocstate": "malloc_get_state and malloc_set_state, which glibc keeps for old programs",
    "tst-mtrace": "mtrace",
    "tst-pvalloc-fortify": "a bug of _FORTIFY_SOURCE in glibc's headers, no malloc",
    "tst-safe-linking": "the links between glibc's free chunks",
}

HEADERS = """support/check.h support/support.h support/test-driver.h support/xthread.h support/xsignal.h
support/xunistd.h support/temp_file.h libc-diag.h array_length.h""".split()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--cache", type=Path, required=True, help="where sources that are fetched are kept")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one test")
    parser.add_argument("--only", help="tests whose name contains this")
    return parser.parse_args()


def fetch(cache: Path) -> None:
    try:
        apt_source.download("glibc", cache)
    except apt_source.Unavailable as reason:
        raise driver.Skip(f"no COFFER_GLIBC_SOURCE, and {reason}") from None


def unpack(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as sources:
        wanted = [member for member in sources.getmembers()
                  if member.isfile() and Path(member.name).parent.name == "malloc"
                  and len(Path(member.name).parts) == 3]
        for member in wanted:
            content = sources.extractfile(member)
            if content is not None:
                (into / Path(member.name).name).write_bytes(content.read())
    return into


def find_sources(cache: Path, work: Path) -> Path:
    """The directory `malloc` of the sources."""
    named = os.environ.get("COFFER_GLIBC_SOURCE")
    place = Path(named) if named else cache
    if not named and not list(cache.glob("glibc_*.orig.tar.*")):
        cache.mkdir(parents=True, exist_ok=True)
        fetch(cache)
    for directory in [place / "malloc", *sorted(place.glob("glibc-*/malloc"))]:
        if (directory / "tst-malloc.c").is_file():
            return directory
    archives = sorted(place.glob("glibc_*.orig.tar.*"))
    archives = [archive for archive in archives if archive.suffix != ".asc"]
    if not archives:
        raise SystemExit(f"no sources of glibc in {place}")
    into = work / "unpacked"
    into.mkdir()
    return unpack(archives[-1], into)


def prepare(work: Path) -> None:
    """The headers that the tests include, all of them suite.h and main.h."""
    for header in HEADERS:
        path = work / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#include "suite.h"\n')
    (work / "include/support/test-driver.c").write_text('#include "main.h"\n')
    # glibc's includes itself as "../test-skeleton.c".
    (work / "test-skeleton.c").write_text('#define GLIBC_SUITE_OLD\n#include "suite.h"\n#include "main.h"\n')
    (work / "malloc").mkdir()


def build(name: str, sources: Path, work: Path, compiler: str) -> Path | None:
    for file in [*sources.glob("tst-*.[ch]"), *sources.glob("mallocbug.c")]:
        copy = work / "malloc" / file.name
        if not copy.exists():
            shutil.copy(file, copy)
    program = work / name
    # -fno-builtin: the calls of malloc stay.
    command = [compiler, "-std=gnu11", "-O1", "-w", "-fno-builtin", "-D_GNU_SOURCE", "-iquote", str(HERE),
               "-I", str(work / "include"), "-I", str(HERE), str(work / "malloc" / f"{name}.c"), "-o", str(program),
               "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 0:
        return program
    print(done.stderr[:2000])
    return None


def verdict(program: Path, preload: str | None, timeout: float) -> tuple[str, driver.Result]:
    result = driver.run([str(program)], preload=preload, timeout=timeout,
                        environment={"TMPDIR": str(program.parent)})
    words = {0: "pass", driver.SKIPPED: "unsupported"}
    return words.get(result.status, driver.describe_status(result.status)), result


def run(options: argparse.Namespace) -> int:
    library = driver.library_under_test(options.library)
    bad, passed = [], 0
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        sources = find_sources(options.cache, work)
        prepare(work)
        present = sorted(path.stem for path in sources.glob("*.c") if path.stem.startswith(("tst-", "mallocbug")))
        for name in present:
            if options.only and options.only not in name:
                continue
            if name not in PUBLIC:
                print(f"{name:32} not run: {INTERNAL.get(name, 'no test by itself, or unknown')}")
                continue
            program = build(name, sources, work, options.compiler)
            if program is None:
                bad.append(f"{name} cannot be compiled")
                continue
            ours, result = verdict(program, library, options.timeout)
            own = "pass" if ours == "pass" else verdict(program, None, options.timeout)[0]
            print(f"{name:32} {ours}" + ("" if own == "pass" else f" (the C library's malloc: {own})"), flush=True)
            if ours == "pass":
                passed += 1
            elif own == "pass":
                bad.append(name)
                print(result.out[-2000:], result.err[-2000:], result.threads, sep="\n")
    print(f"{passed} pass" + (f"; fail: {', '.join(bad)}" if bad else ""))
    return 1 if bad or passed == 0 else 0


def main() -> int:
    try:
        return run(parse())
    except driver.Skip as reason:
        print(f"SKIPPED: {reason}")
        return driver.SKIPPED


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
