#!/usr/bin/env python3
"""Builds the allocators of bench/peers from their crates, as libraries that can be preloaded, into DIR/peers.

Where cargo is missing, or the crates cannot be had, it says so and builds nothing: those peers are left out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from coffer_bench.allocators import CRATES, TOP, crate_library

SOURCES = TOP / "bench" / "peers"


def copy_sources(directory: Path) -> None:
    """Cargo writes a lock file beside its sources; it belongs into the build directory. Only what changed is copied, so
    that nothing is built twice."""
    for source in SOURCES.rglob("*"):
        copy = directory / source.relative_to(SOURCES)
        if source.suffix not in (".rs", ".toml") or source.name.startswith("."):
            continue
        text = source.read_bytes()
        if not copy.exists() or copy.read_bytes() != text:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)


def build(build_dir: Path, cargo: str | None = None) -> tuple[list[str], str]:
    """The peers that are built now, and why others are not (empty: all are)."""
    cargo = cargo or shutil.which("cargo")
    if not cargo:
        return [], "cargo is missing"
    directory = build_dir.resolve() / "peers"
    copy_sources(directory)
    built, failures = [], []
    for name in CRATES:
        # One at a time: cargo unites the features of packages that it builds together, and v2 of mimalloc's crate is a
        # feature.
        command = [cargo, "build", "--release", "--quiet", "--package", name]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        if done.returncode == 0 and crate_library(name, build_dir).exists():
            built.append(name)
        else:
            failures.append(f"{name}: {(done.stderr.strip().splitlines() or ['nothing said'])[0]}")
    return built, "; ".join(failures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, default=TOP / "build")
    built, missing = build(parser.parse_args().build_dir)
    print(f"built: {' '.join(built) or 'none'}")
    if missing:
        print(f"left out: {missing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
