# SPDX-License-Identifier: MIT
"""Crates by name and exact version: cargo fetches them, checks their checksums, and says where they are."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from outside.errors import Missing


def manifest(crate: str, version: str) -> str:
    return ('[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n\n[lib]\npath = "lib.rs"\n\n'
            f'[dependencies]\n{crate} = "={version}"\n')


def source(crate: str, version: str, place: Path) -> tuple[Path, str]:
    """The crate's directory, and its whole version."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise Missing("cargo is missing")
    place.mkdir(parents=True, exist_ok=True)
    (place / "Cargo.toml").write_text(manifest(crate, version))
    (place / "lib.rs").write_text("")
    try:
        asked = subprocess.run([cargo, "metadata", "--format-version", "1"], cwd=place, capture_output=True, text=True,
                               timeout=600, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"cargo did not answer about {crate}") from None
    if asked.returncode != 0:
        raise Missing(f"cargo has no {crate} {version}: {(asked.stderr.strip().splitlines() or ['nothing said'])[0]}")
    for package in json.loads(asked.stdout)["packages"]:
        if package["name"] == crate:
            return Path(package["manifest_path"]).parent, str(package["version"])
    raise Missing(f"cargo fetched no {crate}")
