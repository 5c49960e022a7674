"""Where the programs and libraries of this build are."""

from __future__ import annotations

import os
from pathlib import Path

from coffer.errors import CofferError


def build_dir() -> Path:
    given = os.environ.get("COFFER_BUILD_DIR")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "build"


def program(name: str) -> Path:
    """A C++ program that the command starts."""
    path = build_dir() / "libexec" / "coffer" / name
    if not path.exists():
        raise CofferError(f"{path} is missing: cmake --build {build_dir()} --target coffer_tools")
    return path


# The allocators of this build: Coffer, and those of the papers (docs/papers.md).
OURS = ("coffer", "hoard", "scalloc", "cif")


def library(name: str = "coffer") -> Path:
    path = build_dir() / "lib" / f"lib{name}.so"
    if not path.exists():
        raise CofferError(f"{path} is missing: build it first")
    return path
