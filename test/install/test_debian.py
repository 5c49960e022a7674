# SPDX-License-Identifier: MIT
"""The Debian packages: built from a release, without a complaint of lintian, with the files that `cmake --install` has;
installed in a clean system, where debian/tests/smoke runs, and removed again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from releases import BUILD_DIR, ROOT, VERSION, codename, files, long, run

NAMES = ("libcoffer0", "libcoffer0-hardened", "libcoffer-dev", "coffer-tools")


@pytest.fixture(scope="session")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debian")
    run(ROOT / "tools/package.sh", "deb", BUILD_DIR, folder)
    return folder


def test_a_checkout_is_no_release(tmp_path: Path) -> None:
    """Without the manual there is no package that lacks it, but a message."""
    (tmp_path / "debian").symlink_to(ROOT / "debian")
    said = run("make", "-f", "debian/rules", "override_dh_auto_configure", cwd=tmp_path, status=2)
    assert "make dist makes one" in said


def test_overrides_are_explained() -> None:
    overrides = list((ROOT / "debian").glob("*.lintian-overrides"))
    assert overrides
    for path in overrides:
        lines = path.read_text().splitlines()
        assert all(lines[at - 1].startswith("#") for at, line in enumerate(lines) if not line.startswith("#"))


@long
def test_packages(debs: Path) -> None:
    built = {path.name.partition("_")[0] for path in debs.glob("*.deb")}
    assert built == {*NAMES, "libcoffer0-dbgsym", "libcoffer0-hardened-dbgsym", "coffer-tools-dbgsym"}
    assert (debs / f"coffer_{VERSION}.dsc").exists()
    (changes,) = debs.glob("*_amd64.changes")
    assert "E:" not in run("lintian", "--allow-root", "--fail-on", "error,warning", changes)


@long
def test_files_are_those_of_cmake(debs: Path, tmp_path: Path) -> None:
    """As `cmake --install` puts them below /usr, but for compressed manuals and the folders of documents."""
    run("cmake", "--install", BUILD_DIR, "--prefix", "/usr", DESTDIR=str(tmp_path / "cmake"))
    for name in NAMES:
        run("dpkg-deb", "--extract", next(debs.glob(f"{name}_*.deb")), tmp_path / "packages")

    def plain(folder: Path) -> set[str]:
        names = {name.replace("lib/x86_64-linux-gnu/", "lib/").removesuffix(".gz") for name in files(folder)}
        return {name for name in names if not name.startswith(("usr/share/doc/", "usr/share/lintian/"))}

    wanted = plain(tmp_path / "cmake")
    assert len(wanted) > 100 and plain(tmp_path / "packages") == wanted


HOOK = """#!/bin/sh
# $1: the clean system. What is there before and after is compared without the package system's own records.
set -eux
list() { (cd "$1" && find etc usr var opt -path var/lib/dpkg -prune -o -path var/cache -prune -o -path var/log -prune \\
  -o -path var/lib/apt -prune -o -name ld.so.cache -o -print | sort); }
list "$1" >"$WORK/before"
mkdir "$1/debs"
cp "$WORK"/debs/*.deb "$WORK/smoke" "$1/debs"
chroot "$1" sh -c 'apt-get install --yes /debs/*.deb && sh /debs/smoke && echo SMOKE PASSED'
chroot "$1" apt-get purge --yes libcoffer0 libcoffer0-hardened libcoffer-dev coffer-tools
chroot "$1" apt-get autoremove --yes --purge
list "$1" >"$WORK/after"
"""


@long
@pytest.mark.skipif(os.geteuid() != 0, reason="a clean system needs root")
@pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is missing")
def test_in_a_clean_system(debs: Path, tmp_path: Path) -> None:
    (tmp_path / "debs").mkdir()
    for name in NAMES:
        shutil.copy(next(debs.glob(f"{name}_*.deb")), tmp_path / "debs")
    shutil.copy(ROOT / "debian/tests/smoke", tmp_path / "smoke")
    hook = tmp_path / "hook"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    said = run("mmdebstrap", "--variant=apt", "--include=ca-certificates,gcc,libc6-dev,pkgconf,python3",
               "--skip=cleanup/apt/cache", f"--customize-hook={hook}", codename(), "/dev/null", "--format=null",
               cwd=tmp_path, WORK=str(tmp_path))
    assert "SMOKE PASSED" in said
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("before", "after"))
    assert len(before) > 1000
    assert [line for line in sorted(set(after) - set(before)) if "coffer" in line] == []
