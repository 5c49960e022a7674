# SPDX-License-Identifier: MIT
"""What the tests of packages share: a release as users have it, commands, and chroots.

COFFER_BUILD_DIR is a build with the manual. COFFER_LONG=1 (make test-packages): what takes minutes, too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BUILD_DIR = Path(os.environ["COFFER_BUILD_DIR"]).resolve()
ROOT = Path(__file__).resolve().parents[2]
VERSION = (BUILD_DIR / "version").read_text().strip()
LONG = os.environ.get("COFFER_LONG") == "1"
long = pytest.mark.skipif(not LONG, reason="make test-packages has it")


def run(*command: object, cwd: Path | None = None, status: int = 0, limit: int = 1800, **environment: str) -> str:
    """Both streams of a command; its environment has nothing of this build."""
    clean = {name: value for name, value in os.environ.items()
             if name not in {"DESTDIR", "MAKEFLAGS", "LD_PRELOAD", "PYTHONPATH"} and not name.startswith("COFFER_")}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          cwd=cwd, env=clean | environment, timeout=limit)
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


def unpacked_release(folder: Path) -> Path:
    archive = run(ROOT / "tools/dist.sh", BUILD_DIR, folder).strip().splitlines()[-1]
    run("tar", "xf", archive, cwd=folder)
    return folder / f"coffer-{VERSION}"


def codename() -> str:
    """Of this system: bookworm, noble."""
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line for line in lines if line.startswith("VERSION_CODENAME=")).partition("=")[2]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
