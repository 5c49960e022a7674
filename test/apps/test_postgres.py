# SPDX-License-Identifier: MIT
"""PostgreSQL: initdb, pgbench over many server processes, queries that sort, hash and join in parallel, and a restart.
The cluster is a private one in a temporary directory, reached through a unix socket there."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import harness

CLIENTS, TRANSACTIONS, SCALE = 6, 400, 4

SUMS = """
SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
       (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history),
       (SELECT count(*) FROM pgbench_history);
"""

# Each answer is one row or ordered. The settings make plans with worker processes, and spill sorts to disk.
QUERIES = """
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET work_mem = '2MB';
CREATE TABLE item AS
  SELECT i AS id, i::bigint * 7919 % 1009 AS kind, md5(i::text) AS name, i % 977 * 1.5::numeric AS weight
  FROM generate_series(1, 300000) AS i;
CREATE INDEX ON item (name);
ANALYZE item;
SELECT kind, count(*), sum(weight), min(name) FROM item GROUP BY kind ORDER BY sum(weight), kind LIMIT 25;
SELECT count(*), sum(length(a.name || b.name)) FROM item a JOIN item b ON a.id = b.kind;
SELECT md5(string_agg(name, ',' ORDER BY name DESC)) FROM item;
SELECT count(*) FROM (SELECT name, lag(name) OVER (ORDER BY weight, name) AS other FROM item) AS w WHERE name > other;
SELECT md5(jsonb_agg(jsonb_build_object('id', id, 'name', name, 'words', string_to_array(name, 'a')) ORDER BY id)::text)
  FROM item WHERE id <= 40000;
SELECT count(*) FROM item WHERE name ~ '^(a|b)[0-9]+(c|d).*7' OR name LIKE '%beef%';
WITH RECURSIVE walk(n, path) AS (
  SELECT 1, ARRAY[1] UNION ALL SELECT n + 1, path || n FROM walk WHERE n < 1500
) SELECT sum(array_length(path, 1)) FROM walk;
DO $$
DECLARE words text[] := '{}'; map jsonb := '{}';
BEGIN
  FOR i IN 1..3000 LOOP
    words := words || md5(i::text);
    IF i % 10 = 0 THEN map := map || jsonb_build_object(words[i], i); END IF;
  END LOOP;
  RAISE NOTICE 'words % map %', md5(words::text), md5(map::text);
END $$;
"""
JIT = "SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;"
JIT_QUERY = JIT + "SELECT kind % 5 AS k, count(*), sum(id * 3 + kind) FROM item WHERE id % 7 < 5 GROUP BY k ORDER BY k;"


def programs() -> Path:
    """Debian's directory of the newest version. (The pg_wrapper scripts in /usr/bin are for the system's clusters.)"""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    assert found, "PostgreSQL is missing: apt-get install postgresql"
    return max(found, key=lambda path: int(path.parent.name))


class Cluster:
    """PostgreSQL refuses to run as root, so root hands it to the user that the package made, or to nobody."""

    def __init__(self, allocator: harness.Allocator, home: Path) -> None:
        self.allocator, self.home, self.bin = allocator, home / allocator.name, programs()
        self.home.mkdir()
        self.user = self.group = None
        if os.geteuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            entry = names.get("postgres") or names["nobody"]
            self.user, self.group = entry.pw_uid, entry.pw_gid
            home.chmod(0o755)
            os.chown(self.home, self.user, self.group)
        self.data = self.home / "data"

    def tool(self, program: str, *options: str | Path, data: str = "") -> harness.Outcome:
        return harness.run(
            self.allocator,
            [self.bin / program, *options],
            home=self.home,
            env={"PGHOST": str(self.home), "PGUSER": "tester", "PGDATABASE": "postgres"},
            stdin=data.encode(),
            user=self.user,
            group=self.group,
        )

    def query(self, text: str) -> str:
        options = ["--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        outcome = self.tool("psql", *options, data=text)
        return outcome.text() + outcome.stderr.decode()

    def create(self) -> None:
        options = ["--auth=trust", "--username=tester", "--no-locale", "--encoding=UTF8", "--no-sync"]
        self.tool("initdb", *options, "--pgdata", self.data)

    def start(self) -> harness.Server:
        """SIGINT is PostgreSQL's fast stop."""
        settings = {"listen_addresses": "", "unix_socket_directories": self.home, "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        server = harness.Server(
            self.allocator,
            [self.bin / "postgres", "-D", self.data, *options],
            home=self.home,
            user=self.user,
            group=self.group,
            stop=harness.signal.SIGINT,
        )
        ready = [self.bin / "pg_isready", "--quiet", "--username=tester", "--host", self.home]
        harness.wait_until("start of PostgreSQL", lambda: subprocess.run(ready, check=False).returncode == 0, server)
        server.check()
        return server


def session(allocator: harness.Allocator, home: Path) -> dict[str, str]:
    cluster = Cluster(allocator, home)
    cluster.create()
    said = {}
    with cluster.start() as server:
        cluster.tool("pgbench", "--initialize", "--quiet", f"--scale={SCALE}")
        clients = [f"--client={CLIENTS}", "--jobs=2", f"--transactions={TRANSACTIONS}", "--random-seed=7"]
        report = cluster.tool("pgbench", *clients).text()
        assert f"{CLIENTS * TRANSACTIONS}/{CLIENTS * TRANSACTIONS}" in report
        # A connection for each transaction: a server process that forks off the postmaster, and ends.
        reads = ["--select-only", "--no-vacuum", "--protocol=prepared", "--connect", "--transactions=60"]
        cluster.tool("pgbench", *clients[:2], *reads)
        said["sums"] = cluster.query(SUMS).strip()
        said["queries"] = cluster.query(QUERIES)
        said["jit"] = cluster.query(JIT_QUERY)
        server.check()
    with cluster.start():
        said["sums after restart"] = cluster.query(SUMS).strip()
        said["vacuum"] = cluster.query("VACUUM (FULL, ANALYZE); REINDEX TABLE item; SELECT count(*) FROM item;")
    return said


def test_postgres(both: list[harness.Allocator], home: Path) -> None:
    got, expected = [session(allocator, home) for allocator in both]
    for said in (got, expected):
        # Every transaction adds one number to an account, a teller, a branch and the history.
        accounts, branches, tellers, history, count = said["sums"].split("|")
        assert accounts == branches == tellers == history
        assert int(count) == CLIENTS * TRANSACTIONS
        assert said["sums after restart"] == said["sums"]
    assert got == expected
