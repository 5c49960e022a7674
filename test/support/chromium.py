# SPDX-License-Identifier: MIT
"""The browser that looks at pages."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
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


def opened(browser: Any, path: Path, width: int, scheme: str, problems: list[str]) -> Any:
    """One of Coffer's pages with a picture of areas, drawn. What it complains of, or asks for from elsewhere, is added
    to the problems as long as it is open."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("console",
            lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "blob:"))
            else problems.append(f"asks for {request.url}"))
    page.goto(path.as_uri())
    page.wait_for_selector("#picture .slice", timeout=60_000)
    return page
