# SPDX-License-Identifier: MIT
"""The rows of o1heap and TLSF in rt/README.md are what rt/tools/peers.py counts. Where cargo is missing, or the crates
cannot be had, they are left out."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from toolbox import RT, run

sys.path.insert(0, str(RT / "tools"))
import peers  # noqa: E402


def test_rows_of_peers(tmp_path: Path) -> None:
    if not shutil.which("cargo"):
        pytest.skip("cargo is missing")
    try:
        found = peers.fetch(tmp_path)
    except SystemExit as error:
        pytest.skip(str(error)[:300])
    readme = (RT / "README.md").read_text(encoding="utf-8")
    rows = {name: (int(alloc), int(free)) for name, alloc, free in
            re.findall(r"^\| ([^|]+) \| any \| any \| (\d+) \| (\d+) \|$", readme, re.MULTILINE)}
    gcc = {machine: run([command[0], "-dumpfullversion"]) for machine, command in peers.COMPILERS.items()}
    for peer in found:
        counted = {machine: tuple(peers.longest(peer, machine, tmp_path)) for machine in peers.RUST}
        for machine, most in counted.items():
            # The table is of GCC 12; what Rust's compiler makes may differ a little from version to version.
            if peer.name == "o1heap" and gcc[machine].startswith("12."):
                assert rows[f"{machine}, {peer.name}"] == most
            assert all(abs(told - now) <= told // 5 for told, now in zip(rows[f"{machine}, {peer.name}"], most))
        calls = peers.observed(peer, tmp_path)
        for call, most in zip(("alloc", "free"), counted["rv32im"]):
            assert len(calls[call]) > 80
            assert most // 2 < max(calls[call]) <= most
