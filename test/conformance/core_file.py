#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has gdb's gcore write the core file of a small process: it holds the live blocks, and is small.

core_file.py [--library PATH] PROGRAM
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import driver

KINDS = "smgl"
MOST_BYTES = 100 << 20  # the process has 23 MB of blocks, and 10 MB of metadata and libraries
FILE_LIMIT = 1 << 30  # so that a core file of everything that is reserved does not fill the disk
TIMEOUT = 120


def write_core(gcore: str, process: int, prefix: Path) -> Path:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))

    command = [gcore, "-o", str(prefix), str(process)]
    shown = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        preexec_fn=limit,
    )
    core = prefix.with_name(f"{prefix.name}.{process}")
    if "ptrace" in shown.stderr and not core.exists():
        raise driver.Skip(f"gdb may not look at another process here: {shown.stderr.strip()}")
    if shown.returncode != 0 or not core.exists():
        raise SystemExit(f"gcore failed: {shown.stdout}{shown.stderr}")
    return core


def check(core: Path) -> int:
    size = core.stat().st_size
    if size > MOST_BYTES:
        print(f"the core file has {size >> 20} MiB, at most {MOST_BYTES >> 20} expected")
        return 1
    content = core.read_bytes()
    missing = [kind for kind in KINDS if f"mark-ofcore-{kind}".encode() not in content]
    print(f"core file: {size >> 20} MiB; blocks that are missing: {missing or 'none'}")
    return 1 if missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library")
    parser.add_argument("program")
    options = parser.parse_args()
    library = driver.library_under_test(options.library)
    gcore = shutil.which("gcore")
    if gcore is None:
        print("SKIPPED: gdb is not installed, which has gcore")
        return driver.SKIPPED
    environment = dict(os.environ)
    environment.pop("COFFER_CONF", None)
    if library is not None:
        environment["LD_PRELOAD"] = library
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(
            [options.program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process,
    ):
        try:
            if process.stdout is None or process.stdout.readline() != b"ready\n":
                raise SystemExit("the program did not start")
            return check(write_core(gcore, process.pid, Path(directory) / "core"))
        except driver.Skip as reason:
            print(f"SKIPPED: {reason}")
            return driver.SKIPPED
        finally:
            process.kill()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
