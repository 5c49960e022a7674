# SPDX-License-Identifier: MIT
"""Huge pages: the system's setting, moved and put back, and a process's own refusal of them."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

from coffer_bench.allocators import THP_SETTING, huge_pages
from coffer_bench.errors import Unavailable

PR_SET_THP_DISABLE = 41
# What is started meanwhile inherits it, whoever starts it.
_starting = threading.RLock()


def set_system(setting: str) -> None:
    try:
        THP_SETTING.write_text(setting)
    except OSError as error:
        raise Unavailable(f"the system's setting of huge pages cannot be changed: {error.strerror}") from error


@contextlib.contextmanager
def put_back() -> Iterator[str]:
    """The system's setting is afterwards what it was before."""
    before = huge_pages()
    try:
        yield before
    finally:
        if huge_pages() != before:
            set_system(before)


@contextlib.contextmanager
def refused(refuse: bool) -> Iterator[None]:
    """Processes that start in this block get no huge pages, if `refuse`; those of other threads wait."""
    with _starting:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        if refuse and prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
            raise Unavailable("this kernel has no PR_SET_THP_DISABLE")
        try:
            yield
        finally:
            if refuse:
                prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0)
