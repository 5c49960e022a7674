# SPDX-License-Identifier: MIT
"""nginx."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.programs.base import find_program
from coffer_bench.programs.servers import serving
from hdrh.histogram import HdrHistogram

from soak import latency
from soak.programs.base import Soaked, answers, free_port, port_of, wrk

FILES = 40
# One processor is for the load.
WORKERS = max(1, len(os.sched_getaffinity(0)) - 1)
CONFIGURATION = """
daemon off;
{user}
worker_processes {workers};
pid {home}/pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log off;
  default_type text/plain;
  keepalive_requests 500;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  gzip on; gzip_min_length 1; gzip_types text/plain; gzip_proxied any;
  server {{
    listen 127.0.0.1:{port};
    root {home}/files;
    location = / {{ return 200 "here\\n"; }}
    location /task {{ rewrite ^/task/(.*)/(.*)$ /$1.txt break; add_header X-Size $2; }}
    location /through {{ proxy_pass http://unix:{home}/behind:/; proxy_set_header X-Long $request_uri$http_user_agent; }}
  }}
  server {{
    listen unix:{home}/behind;
    root {home}/files;
    location / {{ rewrite ^/(.*)/(.*)$ /$1.txt break; }}
  }}
}}
"""


class Nginx(Soaked):
    name = "nginx"
    what = "nginx with a worker for each processor but one; wrk asks for files, compressed, half of them through \
a proxy, on 8 connections"
    survives_children = True
    harmless = r"exited on signal 9|http upstream|connect\(\) to unix:"
    turn_seconds = 2.0
    apart = True

    def require(self) -> None:
        find_program("nginx", "nginx-light")
        find_program("wrk", "wrk")

    def furnish(self, inputs: Path, home: Path) -> None:
        (home / "files").mkdir()
        chance = random.Random(5)
        words = ["".join(chance.choices("abcdefgh", k=chance.randint(2, 9))) for _ in range(3000)]
        for number in range(FILES):
            text = " ".join(chance.choices(words, k=20 + 40 * number))
            (home / "files" / f"{number}.txt").write_text(text)

    @contextmanager
    def running(self, allocator: Allocator, home: Path) -> Iterator[int]:
        port = free_port()
        (home / "port").write_text(str(port))
        (home / "behind").unlink(missing_ok=True)
        user = "user root root;" if os.geteuid() == 0 else ""
        (home / "nginx.conf").write_text(CONFIGURATION.format(user=user, home=home, port=port, workers=WORKERS))
        command: list[str | Path] = [
            find_program("nginx", "nginx-light"), "-p", home, "-c", home / "nginx.conf", "-e", "stderr",
        ]
        with serving(self.name, allocator, command, home, lambda: answers(port)) as pid:
            yield pid

    def load(self, home: Path, seconds: float) -> HdrHistogram:
        return latency.of_wrk(wrk(port_of(home), [str(FILES), "/task", "/through"], seconds))
