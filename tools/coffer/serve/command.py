# SPDX-License-Identifier: MIT
"""The sub-command serve."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

PORT = 9779


def serve(
    pids: Annotated[Optional[list[int]], typer.Argument(
        metavar="[PID]...", min=1, show_default=False,
        help="Numbers of processes; ends when these have. None: all processes that show a page.")] = None,
    name: Annotated[Optional[str], typer.Option(
        metavar="NAME", help="All processes of this name, as they come and go.", show_default=False)] = None,
    cgroup: Annotated[Optional[str], typer.Option(
        metavar="GROUP", help="All processes of this control group, and of those below.", show_default=False)] = None,
    address: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: one that is free.")] = PORT,
    signal: Annotated[Optional[int], typer.Option(
        help="The processes' share_signal, when they show no page yet.", show_default=False)] = None,
    dump_signal: Annotated[Optional[int], typer.Option(
        help="The processes' dump_signal, of those that no longer say which it is.", show_default=False)] = None,
) -> None:
    """Metrics for Prometheus, heap profiles for pprof and figures as JSON, over HTTP."""
    from coffer.serve.group import Group  # here, for these take a while to load
    from coffer.serve.server import AllEnded, Server

    with Server(address, port, Group(pids or [], name, cgroup, signal), dump_signal) as server:
        print(f"coffer: {server.url}/metrics, /stats.json, /debug/pprof/", file=sys.stderr, flush=True)
        try:
            server.serve_forever(poll_interval=0.5)
        except AllEnded:
            print("coffer: all of these processes have ended", file=sys.stderr)
        except KeyboardInterrupt:
            pass
