#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a fuzzing target, libFuzzer's.

  run.py build-fuzz/test/fuzz/fuzz_NAME --runs N      the same inputs each time
  run.py build-fuzz/test/fuzz/fuzz_NAME --seconds S   others each time
  run.py test/fuzz/NAME.py ...                        a target in Python, by the Python that runs this

It begins with seeds/NAME.b64, an input a line. An input that fails is kept beside the program as crash-NAME-*; the
program with that file's name repeats it.
"""

from __future__ import annotations

import argparse
import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SEEDS = Path(__file__).resolve().parent / "seeds"
LAST_LINES = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--artifacts", type=Path, help="a folder for inputs that fail (the program's)")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--length", type=int, default=1024, help="of an input, at most")
    arguments = parser.parse_args()
    if (arguments.runs is None) == (arguments.seconds is None):
        parser.error("either --runs or --seconds")
    program = arguments.program.resolve()
    name = program.stem.removeprefix("fuzz_")
    folder = (arguments.artifacts or program.parent).resolve()
    words = [sys.executable, "-B"] if program.suffix == ".py" else []
    words += [str(program), f"-max_len={arguments.length}", f"-artifact_prefix={folder}/crash-{name}-",
             "-timeout=300", "-len_control=0", "-print_final_stats=1", "-verbosity=0"]
    words += [f"-max_total_time={arguments.seconds}"] if arguments.seconds else ["-seed=1", f"-runs={arguments.runs}"]
    with tempfile.TemporaryDirectory(prefix="coffer-fuzz-") as inputs:  # new ones go there, too
        lines = (SEEDS / f"{name}.b64").read_text(encoding="ascii").split()
        for number, line in enumerate(lines):
            (Path(inputs) / f"{number:03}").write_bytes(base64.b64decode(line))
        with tempfile.TemporaryDirectory(prefix="coffer-fuzz-") as scratch:
            done = subprocess.run([*words, inputs], capture_output=True, text=True, errors="replace", check=False,
                                  env={**os.environ, "TMPDIR": scratch})
    print("\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:]))
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
