# SPDX-License-Identifier: MIT
"""What is shown of a path: the page must say nothing of the machine that it was made on."""

from __future__ import annotations

import re

ABSOLUTE = re.compile(r"(?<![\w.])(?:/[\w.+@~-]+)+/(?=[\w.+@~-])")


def short_paths(text: str) -> str:
    """Absolute paths lose their folders."""
    return ABSOLUTE.sub("", text)
