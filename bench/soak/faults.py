# SPDX-License-Identifier: MIT
"""What a log says of a program that went wrong."""

from __future__ import annotations

import re

# Reports of Coffer, and what servers print of processes that died. SIGKILL (9) is ours.
TELLING = re.compile(
    r"coffer:"
    r"|\bsignal (?:4|5|6|7|8|11)\b"
    r"|SIG(?:SEGV|ABRT|BUS|ILL|FPE)\b"
    r"|[Ss]egmentation fault|[Aa]ssertion .*failed|core dumped|stack smashing"
    r"|double free|corrupted|corruption|invalid pointer"
    r"|PANIC:|FATAL ERROR:|Fatal Python error|A fatal error has been detected|REDIS BUG REPORT"
    r"|[Oo]ut [Oo]f [Mm]emory|OutOfMemoryError|Cannot allocate memory|MemoryError"
)
MOST_LINES = 20


def told(log: str, harmless: str = "") -> list[str]:
    """The lines that tell of it, but those that this program prints when all is well. What Coffer says always tells."""
    lines = [line.strip() for line in log.splitlines() if TELLING.search(line)]
    if harmless:
        lines = [line for line in lines if "coffer:" in line or not re.search(harmless, line)]
    return lines[:MOST_LINES]
