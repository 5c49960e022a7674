# SPDX-License-Identifier: MIT
"""The file of results: JSON lines, the first one a header with the plan and the machine's facts."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from coffer_bench.samples import FORMAT, Record, Writer


class Log:
    """For several threads."""

    def __init__(self, path: Path, header: Record) -> None:
        self.path, self._lock, self._writer = path, threading.Lock(), Writer(path)
        self._writer.begin({"kind": "header", "format": FORMAT, **header}, fresh=True)

    def append(self, record: Record) -> None:
        with self._lock:
            self._writer.append(record)

    def close(self) -> None:
        self._writer.close()

    def keep(self, name: str, text: str) -> None:
        """A log of a program, beside the file."""
        folder = self.path.with_suffix("")
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def say(self, text: str) -> None:
        print(f"soak: {text}", file=sys.stderr, flush=True)
