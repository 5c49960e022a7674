# SPDX-License-Identifier: MIT
"""A suite's package, of whatever kind: where its tests are, and which version it is."""

from __future__ import annotations

from pathlib import Path

from outside import crates, debian
from outside.errors import Missing
from outside.suite import Origin, Suite


def package(origin: Origin, place: Path) -> tuple[Path, str]:
    if origin.kind == "crate":
        return crates.source(origin.name, origin.version, place)
    if origin.kind == "debian source":
        return debian.source(origin.name, place)
    if origin.kind == "directory":
        return Path(origin.name), origin.version
    if origin.unpack:
        return debian.unpacked(origin.name, place, origin.inner, origin.members)
    version = debian.installed_version(origin.name)
    if not version:
        raise Missing(f"the package {origin.name} is not installed")
    return Path("/"), version


def fetch(suite: Suite, build_dir: Path) -> tuple[Path, str]:
    """The suite's directory of tests, and the version of its package."""
    top, version = package(suite.origin, build_dir / "packages" / suite.name)
    roots = sorted(top.glob(suite.root)) if "*" in suite.root else [top / suite.root]
    if not roots or not roots[-1].is_dir():
        raise Missing(f"{suite.origin.name} {version} has no {suite.root}")
    return roots[-1], version
