# SPDX-License-Identifier: MIT
"""The wheel as it would be published: made of a release, for every Linux with this C library or a newer one, and used
in an environment that has nothing else of Coffer. (test/tools/test_wheel.py has each sub-command.)"""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import pytest
from releases import BUILD_DIR, ROOT, VERSION, long, run

APP = """
import json, sys
kept = [json.loads("[" + "1," * 5000 + "2]") for _ in range(40)]
maps = open("/proc/self/maps").read()
print(len(kept), "coffer" if "/coffer/box/lib/libcoffer.so" in maps else "foreign", sys.argv[1])
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(ROOT / "tools/package.sh", "wheel", BUILD_DIR, folder)
    (made,) = folder.glob("*.whl")
    return made


@long
def test_it_is_for_systems_as_old_as_this_one(wheel: Path) -> None:
    tag = re.fullmatch(rf"coffer-{re.escape(VERSION)}-py3-none-manylinux_2_(\d+)_{platform.machine()}.whl", wheel.name)
    assert tag, wheel.name
    assert 28 <= int(tag[1]) <= int(platform.libc_ver()[1].split(".")[1])
    assert wheel.stat().st_size < 8 << 20
    said = run(BUILD_DIR / "venv-packages/bin/auditwheel", "show", wheel)
    assert f'"manylinux_2_{tag[1]}_{platform.machine()}"' in said


def installed(wheel: Path, folder: Path) -> Path:
    """A Python with the wheel."""
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", wheel)
    # What it needs besides is pip's to fetch; here it comes from the build directory.
    (packages,) = (folder / "venv").glob("lib/python3*/site-packages")
    (built,) = (BUILD_DIR / "venv").glob("lib/python3*/site-packages")
    (packages / "needed.pth").write_text(f"{built}\n")
    return python


def works(python: Path, folder: Path) -> None:
    """The command of an environment, with the libraries and programs that auditwheel has rewritten."""
    (folder / "app.py").write_text(APP)
    coffer = [python, "-m", "coffer"]
    assert run(*coffer, "run", "--", python, "app.py", "x", cwd=folder) == "40 coffer x\n"
    assert run(python, "app.py", "x", cwd=folder) == "40 foreign x\n"
    said = run(*coffer, "record", "-o", "app.trace", "--", python, "app.py", "x", cwd=folder)
    assert said.startswith("40 ") and "records" in said
    assert "threads" in run(*coffer, "trace", "info", "app.trace", cwd=folder)
    assert "coffer" in run(*coffer, "replay", "app.trace", "-a", "coffer,glibc", cwd=folder)
    assert "leak" in run(*coffer, "leaks", "--", python, "app.py", "x", cwd=folder)


@long
def test_a_program_runs_under_it(wheel: Path, tmp_path: Path) -> None:
    works(installed(wheel, tmp_path), tmp_path)
