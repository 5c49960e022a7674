# SPDX-License-Identifier: MIT
"""What the tests of coffer trace and coffer report share. They run in the command's own Python environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from coffer import places

COMMAND = places.build_dir() / "bin" / "coffer"
SAMPLE = places.build_dir() / "libexec" / "coffer" / "trace_sample"


def coffer(*arguments: object, status: int = 0) -> str:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("traces")
    result = {}
    for kind in ("every", "single", "handover", "every-addresses", "single-addresses"):
        result[kind] = place / f"{kind}.trace"
        subprocess.run([str(SAMPLE), kind, str(result[kind]), "5000"], check=True)
    return result
