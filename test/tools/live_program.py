# SPDX-License-Identifier: MIT
"""The program that the tests of stat and top watch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from coffer import places

PROGRAM = Path(os.environ["COFFER_LIVE_PROGRAM"])


class Program:
    def __init__(self, conf: str, preload: bool = True, **more: object) -> None:
        environment = {**os.environ, "COFFER_CONF": conf}
        if preload:
            environment["LD_PRELOAD"] = str(places.library())
        self.process = subprocess.Popen([PROGRAM], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1, **more)
        assert self.answer() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def answer(self) -> str:
        return self.process.stdout.readline().strip()

    def do(self, letters: str) -> str:
        for letter in letters:
            self.process.stdin.write(letter)
            self.process.stdin.flush()
            last = self.answer()
        return last

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def pages_of(pid: int) -> list[Path]:
    return [path for directory in ("/dev/shm", "/tmp") for path in Path(directory).glob(f"coffer-*-{pid}")]
