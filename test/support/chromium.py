# SPDX-License-Identifier: MIT
"""The browser that looks at pages."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[Any]:
    """A browser of playwright's, as long as the block lasts."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    assert program, "chromium is missing: apt-get install chromium"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=[*FLAGS, *flags])
        yield browser
        browser.close()
