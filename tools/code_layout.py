#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes into src/api/libcoffer.ld which functions a small process runs: they come first in the code.

code_layout.py [BUILD_DIR]   where coffer_shared, conformance_startup and bench/patterns/small are built

They are found by callgrind, which counts each instruction. A name that is in the script and in no object costs nothing;
a function that is missing there costs a small process 64 KiB, and test/conformance/start_up.py measures that.
"""

from __future__ import annotations

import bisect
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
SCRIPT = TOP / "src" / "api" / "libcoffer.ld"
BEGIN, END = "/* functions: begin */", "/* functions: end */"
# free and malloc, and where in a line of code they start: `pair 64` takes 1.18 of the time where both start at a line's
# start (AMD EPYC), and batches 1.04 where they start anywhere.
PLACED = [
    "    . = ALIGN(64) + 32; *(.text.coffer_free .text.free .text.cfree .text.__libc_free .text.__libc_cfree)",
    "    . = ALIGN(64); *(.text.coffer_malloc .text.malloc .text.__libc_malloc .text.coffer_malloc.localalias)",
]
# Parts of a function that a compiler takes out of it.
PART = re.compile(r"\.(part|constprop|isra|cold)\b.*$")


def functions(library: Path) -> list[tuple[int, int, str]]:
    """Address, size and name of each, by address."""
    shown = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in shown.splitlines()]
    return sorted((int(row[0], 16), int(row[1], 16), row[3]) for row in rows if len(row) == 4 and row[2] in "tTwW")


def executed(library: Path, command: list[Path | str]) -> set[int]:
    """Addresses within the library of instructions that were executed."""
    addresses, inside = set(), False
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        subprocess.run(["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={counts}",
                        "--compress-strings=no", "--compress-pos=no", *command], check=True,
                       env={**os.environ, "LD_PRELOAD": str(library)}, stdout=subprocess.DEVNULL)
        for line in counts.read_text().splitlines():
            if line.startswith("ob="):
                inside = line[3:].strip() == str(library)
            elif inside and line.startswith("0x"):
                addresses.add(int(line.split()[0], 16))
    return addresses


def main() -> int:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "build")
    library = (build / "lib" / "libcoffer.so").resolve()
    found = functions(library)
    starts = [start for start, _, _ in found]
    names = set()
    for command in ([build / "test/conformance/conformance_startup", "small_blocks"], [build / "bench/patterns/small"]):
        for address in executed(library, command):
            # Of names that are aliases any may be that of the section.
            start = starts[bisect.bisect_right(starts, address) - 1]
            aliases = found[bisect.bisect_left(starts, start):bisect.bisect_right(starts, start)]
            names.update(PART.sub("", name) for _, size, name in aliases if address < start + size)
    if len(names) < 50:
        raise SystemExit("code_layout: found hardly a function; was the library built with its symbols?")
    lines = [*PLACED, *(f"    *(.text*.{name}*)" for name in sorted(names))]
    text = SCRIPT.read_text()
    before, rest = text.split(BEGIN)
    SCRIPT.write_text("\n".join([before + BEGIN, *lines, END + rest.split(END)[1]]))
    print(f"{len(names)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
