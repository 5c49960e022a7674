# SPDX-License-Identifier: MIT
"""The allocators that the tests run over: found as the bench finds them, and proved to be the ones that answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from outside.errors import Missing

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from coffer_bench import peers  # noqa: E402
from coffer_bench.allocators import PEERS, find  # noqa: E402
from coffer_bench.allocators import Allocator as Allocator  # noqa: E402
from coffer_bench.errors import BenchError  # noqa: E402

# The newest of each from their crates, and Debian's as they are.
NAMES = ("glibc", "jemalloc", "jemalloc5", "mimalloc", "mimalloc3", "snmalloc", "coffer")
CRATES = tuple(name for name in NAMES if name in ("jemalloc5", "mimalloc3", "snmalloc"))


def build_crates(build_dir: Path) -> str:
    """Why some could not be built; empty where all are."""
    return peers.build(build_dir, names=CRATES)[1]


def label(allocator: Allocator) -> str:
    return allocator.name if "/" not in allocator.name else Path(allocator.name).name


def describe(allocator: Allocator, build_dir: Path) -> str:
    """Its version, and what has it."""
    version = peers.version(allocator, build_dir)
    if allocator.name in PEERS:
        return f"Debian's {PEERS[allocator.name][1]} {version}"
    return version or "unknown"


def malloc_of(allocator: Allocator) -> Path:
    """The library that the loader binds malloc to in a program that is started under it. A library that cannot be
    preloaded is only a warning to the loader."""
    environment = {**allocator.environment(), "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    done = subprocess.run(["/bin/cat", "/dev/null"], env=environment, capture_output=True, text=True, timeout=60,
                          check=False)
    match = re.search(r"binding file /bin/cat \[0\] to (\S+) \[0\]: normal symbol `malloc'", done.stderr)
    if match is None or done.returncode != 0:
        raise Missing(f"under {allocator.name} /bin/cat does not run: {done.stderr[-200:].strip()}")
    return Path(match[1]).resolve()


def prove(allocator: Allocator) -> None:
    bound = malloc_of(allocator)
    if allocator.library is None:
        if not re.match(r"libc[.-]", bound.name):
            raise Missing(f"glibc was asked for, and malloc comes from {bound.name}")
    elif bound != allocator.library.resolve():
        raise Missing(f"{allocator.name} is not loaded: malloc comes from {bound.name}")


def available(names: list[str], build_dir: Path,
              check: Callable[[Allocator], None] = prove) -> tuple[list[Allocator], dict[str, str]]:
    """Those that can be had, and why the others cannot."""
    there: list[Allocator] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            (allocator,) = find([name], build_dir)
            check(allocator)
            there.append(allocator)
        except (BenchError, Missing) as reason:
            missing[name] = str(reason)
    return there, missing


def functions(allocator: Allocator) -> frozenset[str] | None:
    """The functions that its library defines; None for the C library, which has all of its own."""
    if allocator.library is None:
        return None
    done = subprocess.run(["nm", "--dynamic", "--defined-only", str(allocator.library)], capture_output=True, text=True,
                          check=True)
    return frozenset(line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.strip())


def variables(allocator: Allocator) -> dict[str, str]:
    """What a test's own environment gets of it."""
    wanted = allocator.environment()
    return {name: value for name, value in wanted.items() if name not in os.environ or name == "LD_PRELOAD"}
