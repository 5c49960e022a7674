#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program with raised privileges reads its own options and not the user's: setuid.py PROGRAM DIRECTORY.

PROGRAM is conf_string, whose own options say slack:32K. A copy in DIRECTORY, which must allow setuid, is given to
another user. Exit status 77: skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OTHER_USER = 65534
SKIPPED = 77


def expect(program: Path, slack: str) -> None:
    environment = {**os.environ, "COFFER_CONF": "slack:1M"}
    outcome = subprocess.run([program, "slack", slack], env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0 and outcome.stdout == "good\n", outcome


def skip(reason: str) -> int:
    print(f"SKIPPED: {reason}")
    return SKIPPED


def main() -> int:
    program, directory = Path(sys.argv[1]), Path(sys.argv[2])
    expect(program, "1M")
    if os.geteuid() != 0:
        return skip("only root can give a program to another user")
    if os.statvfs(directory).f_flag & os.ST_NOSUID:
        return skip(f"{directory} is mounted without setuid")
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        return skip("this process may gain no privileges")
    with tempfile.TemporaryDirectory(dir=directory) as place:
        os.chmod(place, 0o755)
        copy = Path(place) / "program"
        shutil.copy(program, copy)
        try:
            os.chown(copy, OTHER_USER, -1)
        except OSError as error:
            return skip(f"there is no other user here: {error.strerror}")
        expect(copy, "1M")
        os.chmod(copy, 0o4755)
        expect(copy, "32K")
    return 0


if __name__ == "__main__":
    sys.exit(main())
