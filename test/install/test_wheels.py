# SPDX-License-Identifier: MIT
"""The wheels for other systems (tools/wheels.py): what they need, and the libraries and programs of each where it is
for. COFFER_WHEELS is a folder that has them, so that they are not made anew."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import pytest
import wheel_systems
from releases import BUILD_DIR, ROOT, VERSION, long, run
from test_wheel import installed, works

TAGS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "musllinux_1_2_x86_64", "musllinux_1_2_aarch64")
# Functions that musl has since later than 1.2.0, which musllinux_1_2 promises.
LATER = {"_Fork", "gettid", "preadv2", "pthread_getname_np", "pwritev2", "qsort_r", "reallocarray", "statx",
         "tcgetwinsize", "tcsetwinsize"}
LIBRARIES = {"coffer", "coffer_hardened", "hoard", "scalloc", "cif", "coffer_record", "coffer_record_malloc",
             "coffer_moments", "coffer_python"}
PROGRAMS = {"record", "trace", "replay_plan", "replay_play", "survey", "spread", "simulate", "libcoffer_trace.so"}
OF_X86 = {"attach", "retain"}
each = pytest.mark.parametrize("tag", TAGS)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if ready := os.environ.get("COFFER_WHEELS"):
        return Path(ready)
    folder = tmp_path_factory.mktemp("wheels")
    run(ROOT / "tools/package.sh", "wheels", BUILD_DIR, folder, limit=5400)
    return folder


def wheel_of(wheels: Path, tag: str) -> Path:
    return wheels / f"coffer-{VERSION}-py3-none-{tag}.whl"


class Systems(dict[str, wheel_systems.System]):
    """By tag, each made when it is first asked for."""

    def __init__(self, wheels: Path, folder: Path) -> None:
        super().__init__()
        self.wheels, self.folder = wheels, folder

    def __missing__(self, tag: str) -> wheel_systems.System:
        self[tag] = wheel_systems.system(tag, wheel_of(self.wheels, tag), self.folder / tag)
        return self[tag]


@pytest.fixture(scope="session")
def systems(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Systems:
    return Systems(wheels, tmp_path_factory.mktemp("systems"))


@long
@each
def test_tag_size_and_files(wheels: Path, tag: str) -> None:
    wheel = wheel_of(wheels, tag)
    assert wheel.stat().st_size < 8 << 20
    said = run(BUILD_DIR / "venv-packages/bin/auditwheel", "show", wheel)
    system, major, minor, arch = tag.split("_", 3)
    found = re.search(rf'"{system}_{major}_(\d+)_{arch}"', said)
    assert found and int(found[1]) <= int(minor), said
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"coffer/box/lib/lib{name}.so" for name in LIBRARIES} <= names
    programs = PROGRAMS | (OF_X86 if tag.endswith("x86_64") else set())
    found = {name.rpartition("/")[2] for name in names if name.startswith("coffer/box/libexec/")}
    assert found - {"coffer_count-amd64-linux"} == programs
    assert any(name.endswith(".data/data/share/man/man1/coffer-record.1") for name in names)


@long
@each
def test_what_they_need(systems: Systems, tag: str) -> None:
    """Of the C library alone, and nothing that is newer than the tag says."""
    system = systems[tag]
    files = [file for file in (system.root / wheel_systems.BOX).rglob("*") if file.is_file()
             and file.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) > 15
    for file in files:
        needed = set(wheel_systems.dynamic_section(file))
        symbols = wheel_systems.needed_symbols(file)
        if system.musl:
            assert needed <= {f"libc.musl-{system.arch}.so.1"}, file
            assert not LATER & symbols, file
        else:
            assert all(re.fullmatch(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*", name) for name in needed), file
            versions = {tuple(map(int, found[1].split("."))) for symbol in symbols
                        if (found := re.search(r"@GLIBC_([0-9.]+)", symbol))}
            assert max(versions, default=(2, 0)) <= (2, 28), file


@long
@each
@pytest.mark.parametrize("library", ["coffer", "coffer_hardened", "hoard", "scalloc", "cif"])
def test_preloaded(systems: Systems, tag: str, library: str) -> None:
    system = systems[tag]
    path = system.path(f"{wheel_systems.BOX}/lib/lib{library}.so")
    assert system.run("threads", LD_PRELOAD=path) == f"malloc of lib{library}.so\n"
    assert system.run("threads") != f"malloc of lib{library}.so\n"


@long
@each
def test_record_and_replay(systems: Systems, tag: str) -> None:
    system = systems[tag]
    programs, libraries = f"{wheel_systems.BOX}/libexec/coffer", f"{wheel_systems.BOX}/lib"
    coffer = system.path(f"{libraries}/libcoffer.so")
    trace, plan = system.path("a.trace"), system.path("a.plan")
    system.run(f"{programs}/record", "--output", trace, "--preload",
               f"{system.path(f'{libraries}/libcoffer_record.so')}:{coffer}", "--", *system.started("threads"))
    found = json.loads(system.run(f"{programs}/trace", "survey", f"in={trace}"))
    assert found["operations"]["malloc"] >= 60000 and len(found["threads"]) == 4
    said = json.loads(system.run(f"{programs}/replay_plan", trace, plan))
    assert said["complete"] and said["operations"] >= 120000
    played = json.loads(system.run(f"{programs}/replay_play", f"plan={plan}", "touch=all", "lead=0", LD_PRELOAD=coffer))
    assert played["library"] == coffer and played["operations"]["all"] == said["operations"]


@long
def test_the_command_works(wheels: Path, tmp_path: Path) -> None:
    works(installed(wheel_of(wheels, TAGS[0]), tmp_path), tmp_path)
