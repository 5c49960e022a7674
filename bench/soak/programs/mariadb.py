# SPDX-License-Identifier: MIT
"""MariaDB."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.processes import User, execute
from coffer_bench.programs.base import copy_tree, directory, find_program
from coffer_bench.programs.servers import serving
from hdrh.histogram import HdrHistogram

from soak import latency
from soak.programs.base import PATIENCE, PLAIN, Soaked, as_user

TABLES = ["--tables=3", "--table-size=20000"]


class MariaDb(Soaked):
    name = "mariadb"
    what = "mariadbd; sysbench's reads and writes in transactions over three tables, from 4 clients"
    limit_mib = 768
    harmless = r"InnoDB: (?:Starting crash recovery|Using crc32|innodb_buffer_pool)"

    def require(self) -> None:
        find_program("mariadbd", "mariadb-server")
        find_program("mariadb-install-db", "mariadb-server")
        find_program("mariadb-admin", "mariadb-client")
        find_program("sysbench", "sysbench")
        self.user()

    def user(self) -> User | None:
        return as_user("mysql", "nobody")

    def prepare(self, inputs: Path) -> None:
        """A database with sysbench's tables, made under the C library's allocator."""
        with directory() as home:
            user = self.user()
            if user:
                os.chown(home, user.uid, user.gid)
            install = [
                find_program("mariadb-install-db", "mariadb-server"), "--no-defaults", f"--datadir={home / 'data'}",
                "--auth-root-authentication-method=normal", "--skip-test-db",
            ]
            execute(install, {**PLAIN, "HOME": str(home)}, user=user, cwd=home, timeout=PATIENCE)
            with self.running(Allocator("glibc", None), home):
                admin = [*self.tool("mariadb-admin", home), "create", "sbtest"]
                execute(admin, PLAIN, timeout=PATIENCE)
                execute([*self.sysbench(home), "prepare"], PLAIN, timeout=PATIENCE)
            copy_tree(home / "data", inputs / "data")

    def furnish(self, inputs: Path, home: Path) -> None:
        user = self.user()
        copy_tree(inputs / "data", home / "data", (user.uid, user.gid) if user else None)

    def tool(self, name: str, home: Path) -> list[str]:
        return [find_program(name, "mariadb-client"), "--no-defaults", f"--socket={home / 'socket'}", "--user=root"]

    def sysbench(self, home: Path) -> list[str]:
        return [
            find_program("sysbench", "sysbench"), "oltp_read_write", f"--mysql-socket={home / 'socket'}",
            "--mysql-user=root", "--mysql-db=sbtest", "--threads=4", "--rand-seed=7", *TABLES,
        ]

    @contextmanager
    def running(self, allocator: Allocator, home: Path) -> Iterator[int]:
        def ready() -> bool:
            ping = [*self.tool("mariadb-admin", home), "ping"]
            return subprocess.run(ping, capture_output=True, env=PLAIN).returncode == 0

        # The buffer pool is smaller than the tables, so that it is full soon.
        command: list[str | Path] = [
            find_program("mariadbd", "mariadb-server"), "--no-defaults", f"--datadir={home / 'data'}",
            f"--socket={home / 'socket'}", f"--pid-file={home / 'pid'}", f"--tmpdir={home}", "--skip-networking",
            "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=OFF",
            "--performance-schema=OFF",
        ]
        with serving(self.name, allocator, command, home, ready, self.user()) as pid:
            yield pid

    def load(self, home: Path, seconds: float) -> HdrHistogram:
        command = [*self.sysbench(home), f"--time={max(1, round(seconds))}", "--histogram", "run"]
        return latency.of_sysbench(execute(command, PLAIN, timeout=seconds + PATIENCE).stdout.decode())
