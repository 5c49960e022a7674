# SPDX-License-Identifier: MIT
"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from coffer.errors import CofferError


@contextlib.contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A name to write to: the file gets its own when it is whole. A device, or - for the standard output, is itself."""
    if str(target) == "-" or (target.exists() and not target.is_file()):
        unfinished = target
    else:
        unfinished = target.with_name(target.name + ".part")
    try:
        yield unfinished
        if unfinished is not target:
            os.replace(unfinished, target)
    except OSError as error:
        raise CofferError(f"{target}: {error.strerror or error}") from error
    finally:
        if unfinished is not target:
            unfinished.unlink(missing_ok=True)
