# SPDX-License-Identifier: MIT
"""PostgreSQL, as `coffer bench` starts it."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path

from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError
from coffer_bench.processes import User, execute
from coffer_bench.programs.base import copy_tree
from coffer_bench.programs.servers import Postgres
from hdrh.histogram import HdrHistogram

from soak import latency
from soak.programs.base import PATIENCE, Soaked

# One of ten: sorts, hashes, JSON and strings.
QUERY = r"""
\set first random(1, 350000)
SELECT count(*), sum(length(text)) FROM (
  SELECT tid, string_agg(md5(aid::text), ',' ORDER BY abalance, aid DESC) || jsonb_object_agg(aid, abalance)::text
    AS text
  FROM (SELECT aid, aid % 97 AS tid, abalance FROM pgbench_accounts WHERE aid BETWEEN :first AND :first + 1000) AS part
  GROUP BY tid) AS grouped;
"""


class PostgreSql(Soaked):
    name = "postgresql"
    what = "PostgreSQL; pgbench's TPC-B-like transactions and queries that sort, hash and build JSON, from 4 clients, \
new connections with each load"
    survives_children = True
    turn_seconds = 10.0  # the first tenths of a second of a connection are little of that
    # What processes say that end because another one was killed.
    harmless = r"terminated by signal 9|because of crash of another server process"

    def __init__(self) -> None:
        self.server = Postgres()
        self.loads = 0

    def require(self) -> None:
        self.server.require()

    def user(self) -> User | None:
        return self.server.user()

    def prepare(self, inputs: Path) -> None:
        self.server.prepare(inputs, quick=False)

    def furnish(self, inputs: Path, home: Path) -> None:
        user = self.user()
        copy_tree(inputs / "data", home / "data", (user.uid, user.gid) if user else None)
        (home / "query.sql").write_text(QUERY)

    def running(self, allocator: Allocator, home: Path) -> AbstractContextManager[int]:
        return self.server.running(allocator, home)

    def tool(self, home: Path, program: str, *words: str | Path, timeout: float = PATIENCE) -> str:
        command = [self.server.programs() / program, *words]
        environment = self.server.environment(home)
        return execute(command, environment, user=self.user(), cwd=home, timeout=timeout).stdout.decode()

    def load(self, home: Path, seconds: float) -> HdrHistogram:
        self.loads += 1
        prefix = f"load{self.loads}"
        try:
            said = self.tool(
                home, "pgbench", "--no-vacuum", "--client=4", "--jobs=1", f"--time={max(1, round(seconds))}",
                "--builtin=tpcb-like@9", "--file=query.sql@1", "--log", f"--log-prefix={home / prefix}",
                timeout=seconds + PATIENCE,
            )
            failed = re.search(r"number of failed transactions: (\d+)", said)
            if not failed or int(failed[1]):
                raise BenchError(f"pgbench: {said[-500:]}")
            found = latency.of_pgbench(home, prefix)
        finally:
            for path in home.glob(f"{prefix}.*"):
                path.unlink()
        self.tool(home, "psql", "--no-psqlrc", "-Atqc", "TRUNCATE pgbench_history", "-c", "VACUUM pgbench_accounts")
        return found
