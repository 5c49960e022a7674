# SPDX-License-Identifier: MIT
"""Where the command begins: its modules take a third of a second to load, and an interrupt may come before they are
there to answer it."""

from __future__ import annotations

import signal


def main() -> None:
    answers = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and is not ignored
    if answers:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from coffer import cli

    if answers:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()
