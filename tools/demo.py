#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""demo.py --library build/lib/libcoffer.so [--runs 5]: a real program under glibc's malloc and under Coffer, in turn.

The program is Debian's Python at work on its own standard library (tools/demo_job.py). Why this one: it is bound by
allocation (glibc's malloc and the fastest lie a fifth of the run time apart, where g++, sqlite3 or z3 hardly move); it
works in phases that build and free hundreds of megabytes in millions of blocks from 16 bytes to megabytes, and leave
some behind; its input is real and on every machine; and its output is the same on every run.

Time and peak memory are the kernel's own figures. Page tables have no high-water mark, so their size is sampled.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

JOB = Path(__file__).resolve().parent / "demo_job.py"
SAMPLE_SECONDS = 1 / 300

WHY = """\
Why this program: each Python object is a block of malloc here (PYTHONMALLOC=malloc), so it is bound by allocation; it
works in phases that build and free millions of blocks; its input is real and its output is the same on every run."""


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    memory: float
    tables: float
    output: str


# Label, unit, digits, and where a run has it.
ROWS = [
    ("wall time", "s", 2, lambda run: run.wall),
    ("CPU time", "s", 2, lambda run: run.cpu),
    ("peak memory", "MiB", 1, lambda run: run.memory),
    ("page tables", "KiB", 0, lambda run: run.tables),
]


class Sampler(threading.Thread):
    """Peaks of a process, read from /proc until it is gone, and whether it mapped the library."""

    def __init__(self, pid: int, library: Path) -> None:
        super().__init__(daemon=True)
        self.pid, self.library = pid, library
        self.peak = {"VmHWM": 0, "VmPTE": 0}
        self.mapped, self.done = False, threading.Event()

    def run(self) -> None:
        count = 0
        while not self.done.wait(SAMPLE_SECONDS):
            try:
                status = Path(f"/proc/{self.pid}/status").read_text()
                if not self.mapped and count % 16 == 8:
                    self.mapped = str(self.library) in Path(f"/proc/{self.pid}/maps").read_text()
            except OSError:
                return
            for name in self.peak:
                if found := re.search(rf"^{name}:\s*(\d+) kB", status, re.MULTILINE):
                    self.peak[name] = max(self.peak[name], int(found[1]))
            count += 1


def python() -> str:
    """Debian's, since another one may come with an allocator, or without a library in files."""
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else shutil.which("python3") or sys.executable


def run(library: Path, preload: bool, home: str) -> Run:
    env = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}
    if preload:
        env["LD_PRELOAD"] = str(library)
        env |= {name: value for name, value in os.environ.items() if name == "COFFER_CONF"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        process = subprocess.Popen([python(), "-s", "-B", str(JOB)], env=env, cwd=home, stdout=out, stderr=err)
        sampler = Sampler(process.pid, library)
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        sampler.done.set()
        sampler.join()
        out.seek(0)
        err.seek(0)
        output, errors = out.read(), err.read().decode("utf-8", "replace")
    if process.returncode != 0 or errors or sampler.mapped != preload:
        under = "Coffer" if preload else "glibc"
        sys.exit(f"under {under}: status {process.returncode}, Coffer mapped: {sampler.mapped}\n{errors}")
    peak = sampler.peak
    digest = hashlib.sha256(output).hexdigest()
    return Run(wall, usage.ru_utime + usage.ru_stime, peak["VmHWM"] / 1024, peak["VmPTE"], digest)


def figure(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def table(glibc: list[Run], coffer: list[Run]) -> list[list[str]]:
    lines = [["", "glibc", "Coffer", "Coffer/glibc"]]
    for label, unit, digits, read in ROWS:
        old, new = [read(one) for one in glibc], [read(one) for one in coffer]
        ratio = statistics.median(new) / max(statistics.median(old), 1e-9)
        lines.append([f"{label}, {unit}", figure(old, digits), figure(new, digits), f"{ratio:.2f}"])
    return lines


def page(lines: list[list[str]], facts: str, runs: int) -> str:
    rows = [" | ".join(line) for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]]]
    return "\n\n".join([
        "# A real program under Coffer",
        f"Written by `make figures`, and not by hand: what `make run` prints. {facts}.",
        f"Python parses, compiles, indexes and writes out its own standard library, {runs} times under each allocator "
        "in turn; median (least..most).",
        "\n".join(f"| {row} |" for row in rows),
    ]) + "\n"


def machine() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    version = subprocess.run([python(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    processor = found[1] if found else platform.machine()
    load = f"load {os.getloadavg()[0]:.1f} before the first run"
    libc = " ".join(platform.libc_ver())
    return f"{os.cpu_count()} x {processor}, Linux {platform.release()}, {version}, {libc}; {load}"


def main() -> int:
    parser = argparse.ArgumentParser(description="A real program under glibc's malloc and under Coffer, in turn.")
    parser.add_argument("--library", type=Path, required=True, help="libcoffer.so")
    parser.add_argument("--runs", type=int, default=5, help="runs under each (default 5)")
    parser.add_argument("--report", metavar="FILE", type=Path, help="writes the table there, as Markdown")
    options = parser.parse_args()
    library = options.library.resolve()
    if not library.is_file():
        parser.error(f"{library} is missing")
    print(f"Program: Python parses, compiles, indexes and writes out its own standard library.\n{WHY}")
    facts = machine()
    print(f"Machine: {facts}")
    print(f"Under each allocator in turn, {options.runs} times; median (least..most).\n", flush=True)
    glibc, coffer = [], []
    with tempfile.TemporaryDirectory() as home:
        for _ in range(options.runs):
            glibc.append(run(library, False, home))
            coffer.append(run(library, True, home))
    lines = table(glibc, coffer)
    print("\n".join(f"{line[0]:18}{line[1]:>26}{line[2]:>26}{line[3]:>15}" for line in lines))
    outputs = {one.output for one in glibc + coffer}
    if len(outputs) != 1:
        print("\nOutput: DIFFERENT between runs")
        return 1
    print(f"\nOutput: the same in all {2 * options.runs} runs (SHA-256 {outputs.pop()[:16]}...).")
    if options.report:
        options.report.write_text(page(lines, facts, options.runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
