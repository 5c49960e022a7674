# SPDX-License-Identifier: MIT
"""The other allocators: builds those of bench/peers from their crates, as libraries that can be preloaded, into
DIR/peers.

Where cargo is missing, or the crates cannot be had, it says so and builds nothing: those peers are left out.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coffer_bench import processes
from coffer_bench.allocators import CRATES, HARDENED, OURS, PAPERS, PEERS, TOP, Allocator, crate_library, run
from coffer_bench.errors import BenchError

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


def manifest_of(name: str) -> dict[str, Any]:
    return tomllib.loads((SOURCES / name / "Cargo.toml").read_text())


def build(build_dir: Path, cargo: str | None = None, names: Sequence[str] = tuple(CRATES)) -> tuple[list[str], str]:
    """The peers that are built now, and why others are not (empty: all are)."""
    cargo = cargo or shutil.which("cargo")
    if not cargo:
        return [], "cargo is missing"
    directory = build_dir.resolve() / "peers"
    copy_sources(directory)
    built, failures = [], []
    for name in names:
        # One at a time: cargo unites the features of packages that it builds together, and v3 of mimalloc's crate is a
        # feature.
        command = [cargo, "build", "--release", "--quiet", "--package", name]
        flags = manifest_of(name)["package"].get("metadata", {}).get("cflags")
        environment = {**os.environ, "CFLAGS": flags} if flags else None
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
        if done.returncode == 0 and crate_library(name, build_dir).exists():
            built.append(name)
        else:
            failures.append(f"{name}: {(done.stderr.strip().splitlines() or ['nothing said'])[0]}")
    return built, "; ".join(failures)


# Proof that a peer is there, and what it is.

MAPPED_SECONDS = 5.0


def verify(allocator: Allocator, programs: Path) -> None:
    """A process that was started under it has it in its mappings, and takes its malloc from it. Anything else is an
    error: to the loader a library that cannot be preloaded is only a warning."""
    process = processes.start(
        ["/bin/cat"],
        allocator.program_environment(Path("/tmp")),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + MAPPED_SECONDS
        while not processes.maps_library(process.pid, allocator.mapped):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(
                    f"{allocator.name} was not loaded: {allocator.mapped} is not mapped in a process that "
                    "was started under it"
                )
            time.sleep(0.005)
    finally:
        processes.kill_group(process)
    run(allocator, [str(programs / "nothing")])


def version(allocator: Allocator, build_dir: Path) -> str:
    """Of the package or crate that has it; empty where nobody knows."""
    if allocator.name in CRATES or allocator.name in HARDENED:
        manifest = manifest_of(allocator.name)
        ((crate, wanted),) = manifest["dependencies"].items()
        library = manifest["package"].get("metadata", {}).get("library", "")
        return f"{library}{', ' if library else ''}{crate} {wanted['version'].removeprefix('=')}"
    if allocator.name in PAPERS:
        return PAPERS[allocator.name]
    if allocator.name in OURS:
        header = (TOP / "include" / "coffer" / "coffer.h").read_text()
        return ".".join(re.findall(r"^#define COFFER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.MULTILINE))
    if allocator.library is None:
        return platform.libc_ver()[1]
    package = PEERS[allocator.name][1] if allocator.name in PEERS else ""
    for name in (package, f"{package}t64"):
        try:
            done = subprocess.run(
                ["dpkg-query", "--show", "--showformat", "${Version}", name], capture_output=True, text=True
            )
        except OSError:
            return ""
        if done.returncode == 0 and done.stdout:
            return done.stdout
    return ""
