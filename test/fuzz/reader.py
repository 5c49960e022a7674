# SPDX-License-Identifier: MIT
"""What fuzzing targets of readers in Python share. atheris is libFuzzer for Python; run.py runs a target."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import atheris

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def imports() -> AbstractContextManager[None]:
    """Of what is fuzzed: its branches are counted."""
    sys.path.insert(0, str(TOOLS))
    return atheris.instrument_imports(include=["coffer"])


def fuzz(content: Callable[[bytes], bytes], read: Callable[[str], None]) -> None:
    """content: of the file that an input stands for. read: it, by its path."""
    from coffer.errors import CofferError

    with tempfile.NamedTemporaryFile(prefix="coffer-fuzz-") as file:

        def one(data: bytes) -> None:
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), content(data), 0)
            try:
                read(file.name)
            except CofferError:
                pass

        atheris.Setup(sys.argv, one)
        atheris.Fuzz()
