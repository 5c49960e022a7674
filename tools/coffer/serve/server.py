# SPDX-License-Identifier: MIT
"""What is answered over HTTP. Only the processes of the group are told of, and nothing is changed in them but that a
heap profile is asked for by their own dump_signal."""

from __future__ import annotations

import gzip
import html
import ipaddress
import json
import socket
import sys
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from coffer.errors import CofferError
from coffer.heap import taken
from coffer.live import figures, metrics, page
from coffer.profile import proto, symbols
from coffer.serve.group import Group, Look

DASHBOARD = Path(__file__).with_name("dashboard.json")
IDLE_SECONDS = 60  # then a connection is closed
MOST_NUMBER = 4194304  # of a process, on 64-bit kernels
TEXT, HTML, JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str, port: int, group: Group, dump_signal: int | None) -> None:
        self.group = group
        self.dump_signal = dump_signal
        self.before: dict[int, page.Reading] = {}  # the last look's, for rates
        # One of a process at a time: who asks takes its first new file for the answer.
        self.profiles: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        address = address.removeprefix("[").removesuffix("]")
        if not address:  # which the system takes for all that the machine has
            raise CofferError("--address: an empty one is none; 0.0.0.0 is all that the machine has")
        if ":" in address:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address, port), Handler)
        except OSError as error:
            raise CofferError(f"{address}, port {port}: {error.strerror or error}") from error

    @property
    def url(self) -> str:
        address, port = self.server_address[:2]
        return f"http://{f'[{address}]' if ':' in str(address) else address}:{port}"

    def service_actions(self) -> None:
        if self.group.has_ended:
            raise AllEnded

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked has gone away; other errors are faults, and are shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class AllEnded(Exception):
    """The processes that were named."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "coffer"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    error_message_format = "%(message)s\n"
    error_content_type = TEXT
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        try:
            self.check_host()
            try:
                parts = urlsplit(self.path)
            except ValueError as error:
                raise Refused(400, f"{self.path}: {error}") from None
            if parts.path in PAGES:
                content, kind = PAGES[parts.path](self, parse_qs(parts.query))
                self.answer(200, content, kind)
            elif parts.path in ("/", "/debug/pprof"):
                self.answer(302, b"", TEXT, {"Location": "/debug/pprof/"})
            else:
                raise Refused(404, f"{parts.path}: there is {', '.join(PAGES)}")
        except Refused as error:
            self.answer(error.status, f"{error}\n".encode(), TEXT)
        except CofferError as error:
            self.answer(503, f"{error}\n".encode(), TEXT)

    do_HEAD = do_GET

    def check_host(self) -> None:
        """A web page that has its own name lead here could else read what only this machine may."""
        own = str(self.server.server_address[0])
        said = self.headers.get("Host", "localhost")
        if not ipaddress.ip_address(own).is_loopback:
            return
        try:
            name = (urlsplit(f"//{said}").hostname or "").removesuffix(".")
            if name != "localhost":
                ipaddress.ip_address(name)
        except ValueError:
            raise Refused(403, f"{said}: this is served to localhost alone") from None

    def answer(self, status: int, content: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": "no-store",
                            "X-Content-Type-Options": "nosniff", **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """A line for each request is for whoever asks, not for here."""

    # --- Pages. ---

    def metrics(self, _: dict[str, list[str]]) -> tuple[bytes, str]:
        look = self.server.group.look()
        silent = [(one.number, one.program) for one in look.silent]
        return metrics.encode(metrics.families(look.readings, silent), self.headers.get("Accept", ""))

    def stats(self, _: dict[str, list[str]]) -> tuple[bytes, str]:
        look = self.server.group.look()
        before, self.server.before = self.server.before, dict(look.readings)
        shown = [{**figures.as_json(one, figures.rates_between(before.get(number), one)), "pid": number}
                 for number, one in look.readings]
        silent = [{"pid": one.number, "program": one.program, "reason": one.reason} for one in look.silent]
        return json.dumps({"processes": shown, "silent": silent}).encode() + b"\n", JSON

    def dashboard(self, _: dict[str, list[str]]) -> tuple[bytes, str]:
        return DASHBOARD.read_bytes(), JSON

    def index(self, _: dict[str, list[str]]) -> tuple[bytes, str]:
        look = self.server.group.look()
        rows = [f'<tr><td>{number}<td>{html.escape(one.program)}<td>{figures.size(one.figures["live"])}'
                f'<td>{figures.size(one.figures["resident"])}'
                f'<td><a href="/debug/pprof/heap?pid={number}">heap</a>' for number, one in look.readings]
        rows += [f"<tr><td>{one.number}<td>{html.escape(one.program)}<td colspan=3>{html.escape(one.reason)}"
                 for one in look.silent]
        return INDEX.format(rows="\n".join(rows)).encode(), HTML

    def heap(self, query: dict[str, list[str]]) -> tuple[bytes, str]:
        number = self.asked_process(query, self.server.group.look())
        with self.server.profiles[number]:
            found = taken.of_process(number, taken.Question(self.server.dump_signal, may_attach=False), 1.0, 1).last
        content = proto.with_functions(found, symbols.names_of(found))
        return gzip.compress(content), "application/octet-stream"

    def asked_process(self, query: dict[str, list[str]], look: Look) -> int:
        numbers = sorted([number for number, _ in look.readings] + [one.number for one in look.silent])
        words = query.get("pid", [])
        if not words and len(numbers) == 1:
            return numbers[0]
        choice = f"?pid=, one of {', '.join(map(str, numbers))}" if numbers else "there is no process now"
        if len(words) != 1 or not (words[0].isascii() and words[0].isdigit()):
            raise Refused(400 if numbers else 404, choice)
        if len(words[0]) > len(str(MOST_NUMBER)) or int(words[0]) not in numbers:
            raise Refused(404, f"{words[0]} is not served: {choice}")
        return int(words[0])


PAGES = {"/metrics": Handler.metrics, "/stats.json": Handler.stats, "/debug/pprof/heap": Handler.heap,
         "/debug/pprof/": Handler.index, "/dashboard.json": Handler.dashboard}

INDEX = """<!DOCTYPE html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width"><title>coffer serve</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
td, th {{ padding: .2rem clamp(.3rem, 1.5vw, 1rem) .2rem 0; text-align: left }}
td:last-child, th:last-child {{ padding-right: 0 }}
td:nth-child(3):not([colspan]), td:nth-child(4) {{ font-variant-numeric: tabular-nums }}
</style>
<h1>coffer serve</h1>
<table><tr><th>process<th>program<th>live<th>resident<th>profile
{rows}
</table>
<p><a href="/metrics">metrics</a> for Prometheus, <a href="/stats.json">all figures</a> as JSON, a
<a href="/dashboard.json">dashboard</a> for Grafana.
<p><code>go tool pprof http://.../debug/pprof/heap?pid=PID</code> shows who holds memory.
"""
