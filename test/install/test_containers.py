# SPDX-License-Identifier: MIT
"""The files for container images, run step by step in chroots, and the two lines that take Coffer into an image."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import containers
import pytest
from releases import ROOT, files, long, run, unpacked_release

sys.path.insert(0, str(ROOT / "test/platforms"))
import alpine  # noqa: E402

DEBIAN = ROOT / "packaging/containers/Dockerfile.debian"
ALPINE = ROOT / "packaging/containers/Dockerfile.alpine"
RELEASES = {"debian:12": "bookworm"}


def test_steps(tmp_path: Path) -> None:
    """The runner does what it is told, in order, and refuses what it does not know."""
    (tmp_path / "context").mkdir()
    (tmp_path / "context/a").write_text("a")
    (tmp_path / "context/link").symlink_to("a")
    started: list[str] = []
    text = ("# a comment\nFROM debian:12 AS one\nENV X=1\nCOPY . /in\nRUN make \\\n  it\n"
            "FROM scratch\nCOPY --from=one /in /out\n")
    last = containers.build(text, tmp_path / "context", tmp_path, lambda image, root: started.append(image),
                            lambda *words: started.append(str(words[-1])) or "")
    assert started == ["debian:12", "make    it"]
    assert files(last.root) == {"out/a", "out/link"} and (last.root / "out/link").is_symlink()
    for wrong in ("RUN true", "FROM scratch\nUSER x"):
        with pytest.raises(ValueError):
            containers.build(wrong, tmp_path, tmp_path / "context", lambda image, root: None, lambda *words: "")


def two_lines(file: Path) -> str:
    """As the file names them, in a comment."""
    lines = re.findall(r"^#   ((?:COPY|ENV) .*)$", file.read_text(), re.MULTILINE)
    assert len(lines) == 2
    return "\n".join(lines)


@pytest.mark.parametrize("file", [DEBIAN, ALPINE], ids=["debian", "alpine"])
def test_the_page_has_the_same_lines(file: Path) -> None:
    page = (ROOT / "docs/guide/containers.md").read_text()
    assert two_lines(file) in page and f"packaging/containers/{file.name}" in page


def test_both_files_take_the_same_steps() -> None:
    """But for the system and how it installs its compiler."""
    debian, other = (containers.instructions(file.read_text()) for file in (DEBIAN, ALPINE))
    assert [step for step in debian[2:]] == [step for step in other[2:]] and len(debian) > 6


@long
@pytest.mark.skipif(os.geteuid() != 0, reason="chroots need root")
@pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is missing")
def test_debian(tmp_path: Path) -> None:
    def system(image: str, root: Path) -> None:
        # As the image is: the base system with apt.
        run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", RELEASES[image], root)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")

    release = unpacked_release(tmp_path)
    made = containers.build(DEBIAN.read_text(), release, tmp_path, system, run)
    held = files(made.root)
    assert "usr/local/lib/libcoffer.so.0" in held and len(held) == 3
    (tmp_path / "user").mkdir()
    user = containers.build(f"FROM debian:12\n{two_lines(DEBIAN)}\n", release, tmp_path / "user", system, run,
                            {"coffer": made.root})
    said = run("chroot", user.root, "env", *(f"{name}={value}" for name, value in user.environment.items()),
               "COFFER_CONF=confirm:true", "ls", "/")
    assert "bin" in said.split() and "free_limit" in said


def with_proc(*command: object, **options: object) -> str:
    """Starts `chroot ROOT COMMAND...` with proc and dev in the folder, as in a container: musl's loader finds the
    libraries beside a program by them."""
    script = 'mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev" && exec chroot "$@"'
    assert command[0] == "chroot"
    return run("unshare", "--mount", "sh", "-c", script, "-", *command[1:], **options)


@long
@pytest.mark.skipif(os.geteuid() != 0, reason="chroots need root")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the programs are for x86-64")
def test_alpine(tmp_path: Path) -> None:
    """In Alpine's layout; `apk add` has stand-ins (test/platforms/alpine.py)."""
    def system(image: str, root: Path) -> None:
        assert image.startswith("alpine:")
        root.rmdir()
        alpine.layout(root)
        alpine.apk(root)

    release = unpacked_release(tmp_path)
    try:
        made = containers.build(ALPINE.read_text(), release, tmp_path, system, with_proc)
    except alpine.Missing as why:
        pytest.skip(str(why))
    held = files(made.root)
    library = made.root / "usr/local/lib/libcoffer.so.0"
    assert library.exists() and len(held) == 3
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "--dynamic", "--wide", library))
    assert needed in (["libc.so"], ["libc.musl-x86_64.so.1"])
    (tmp_path / "user").mkdir()
    text = f"FROM alpine:3.20\nRUN apk add --no-cache cmake\n{two_lines(ALPINE)}\n"
    user = containers.build(text, release, tmp_path / "user", system, with_proc, {"coffer-musl": made.root})
    said = with_proc("chroot", user.root, "env", *(f"{name}={value}" for name, value in user.environment.items()),
               "COFFER_CONF=confirm:true,stats:true", "cmake", "--version")
    assert "cmake version" in said and "free_limit" in said and "peak held bytes" in said
