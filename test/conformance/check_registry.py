#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every case of every program must be registered with ctest: check_registry.py PROGRAM:CASE,CASE... ..."""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    missing = []
    seen = 0
    for entry in sys.argv[1:]:
        program, _, cases = entry.rpartition(":")
        listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True, timeout=20)
        present = set(listed.stdout.split())
        registered = set(cases.split(","))
        seen += len(present)
        missing += [f"{program}: {case} is not registered" for case in sorted(present - registered)]
        missing += [f"{program}: there is no case {case}" for case in sorted(registered - present)]
    print("\n".join(missing) if missing else f"{seen} cases, all registered")
    return 1 if missing or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
