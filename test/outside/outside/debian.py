# SPDX-License-Identifier: MIT
"""Debian's packages: sources by apt with lists and state of its own, so that the machine's configuration stays as it
is; packages that are installed; packages that are unpacked and not installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path

from outside.errors import Missing

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import apt_source  # noqa: E402


def installed_version(package: str) -> str:
    """Empty where it is not installed."""
    if shutil.which("dpkg-query") is None:
        raise Missing("no dpkg-query on this machine")
    asked = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Version}", package]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    status, _, version = done.stdout.partition(" ")
    return version if done.returncode == 0 and status == "installed" else ""


def version_of_description(name: str) -> str:
    """What is left of `glibc_2.36-9+deb12u14.dsc`."""
    match = re.fullmatch(r"[^_]+_(.+)\.dsc", name)
    if match is None:
        raise Missing(f"{name} is no description of a source package")
    return match[1]


def unpack_archive(archive: Path, into: Path, members: str = "*") -> None:
    """Next to `into` first, so that what is there is whole."""
    part = into.with_name(f"{into.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with tarfile.open(archive) as opened:
        wanted = [member for member in opened if fnmatchcase(member.name, members)]
        opened.extractall(part, wanted, filter="data")
    part.rename(into)


def source(package: str, place: Path) -> tuple[Path, str]:
    """The directory with the unpacked sources, and their version. Debian's patches are not applied: they touch no
    test."""
    downloads = place / "download"
    if not list(downloads.glob("*.dsc")):
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        try:
            apt_source.download(package, downloads)
        except apt_source.Unavailable as reason:
            shutil.rmtree(downloads, ignore_errors=True)
            raise Missing(str(reason)) from None
    version = version_of_description(next(downloads.glob("*.dsc")).name)
    archives = [path for path in sorted(downloads.glob("*.orig.tar.*")) if path.suffix != ".asc"]
    if not archives:
        raise Missing(f"the source package {package} has no archive *.orig.tar.*")
    tree = place / "tree"
    if not tree.exists():
        unpack_archive(archives[-1], tree)
    return tree, version


def unpacked(package: str, place: Path, inner: str = "", members: str = "*") -> tuple[Path, str]:
    """A binary package, unpacked and not installed; or an archive in it."""
    if shutil.which("apt-get") is None:
        raise Missing("no apt-get on this machine")
    place.mkdir(parents=True, exist_ok=True)
    if not list(place.glob("*.deb")):
        done = subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=", "download", package], cwd=place,
                              capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0 or not list(place.glob("*.deb")):
            raise Missing(f"apt has no package {package} for this machine")
    archive = next(place.glob("*.deb"))
    tree = place / "tree"
    if not tree.exists():
        part = place / "package.part"
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(["dpkg-deb", "--extract", str(archive), str(part)], check=True)
        if inner:
            archives = sorted(part.glob(inner))
            if not archives:
                raise Missing(f"{package} has no {inner}")
            unpack_archive(archives[-1], tree, members)
            shutil.rmtree(part)
        else:
            part.rename(tree)
    shown = subprocess.run(["dpkg-deb", "--field", str(archive), "Version"], capture_output=True, text=True, check=True)
    return tree, shown.stdout.strip()
