# SPDX-License-Identifier: MIT
"""sqlite3: a database in memory, of which every page is a block."""

from __future__ import annotations

from pathlib import Path

import harness

QUERIES = Path(__file__).parent / "inputs/queries.sql"


def test_sqlite(both: list[harness.Allocator], home: Path) -> None:
    command = [harness.require("sqlite3", "sqlite3"), "-batch", "-bail", ":memory:"]
    queries = QUERIES.read_bytes()
    got, expected = [harness.run(allocator, command, home=home, stdin=queries) for allocator in both]
    assert got.stdout == expected.stdout
    assert expected.text().splitlines()[-1] == "ok"  # PRAGMA integrity_check
