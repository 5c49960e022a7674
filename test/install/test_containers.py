# SPDX-License-Identifier: MIT
"""The files for container images, run step by step in chroots, and the two lines that take Coffer into an image."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import containers
import pytest
from releases import ROOT, files, long, run, unpacked_release

DEBIAN = ROOT / "packaging/containers/Dockerfile.debian"
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


def two_lines() -> str:
    """As the file names them, in a comment."""
    lines = re.findall(r"^#   ((?:COPY|ENV) .*)$", DEBIAN.read_text(), re.MULTILINE)
    assert len(lines) == 2
    return "\n".join(lines)


def test_the_page_has_the_same_lines() -> None:
    page = (ROOT / "docs/guide/containers.md").read_text()
    assert two_lines() in page


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
    user = containers.build(f"FROM debian:12\n{two_lines()}\n", release, tmp_path / "user", system, run,
                            {"coffer": made.root})
    said = run("chroot", user.root, "env", *(f"{name}={value}" for name, value in user.environment.items()),
               "COFFER_CONF=confirm:true", "ls", "/")
    assert "bin" in said.split() and "free_limit" in said
