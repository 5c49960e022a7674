# SPDX-License-Identifier: MIT
"""That the allocator is the one that answers, and not merely one that was asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from outside import allocators
from outside.allocators import Allocator
from outside.errors import Missing


def library(place: Path, name: str, text: str) -> Path:
    (place / f"{name}.c").write_text(text)
    built = place / f"lib{name}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", f"{place}/{name}.c", "-o", str(built)], check=True)
    return built


def test_glibc_is_glibc() -> None:
    assert allocators.malloc_of(Allocator("glibc", None)).name.startswith("libc")
    allocators.prove(Allocator("glibc", None))


def test_a_library_with_a_malloc_is_proved(tmp_path: Path) -> None:
    built = library(tmp_path, "own", "void* __libc_malloc(unsigned long);\n"
                                     "void* malloc(unsigned long n) { return __libc_malloc(n); }")
    allocators.prove(Allocator("own", built))
    assert allocators.functions(Allocator("own", built)) == {"malloc"}
    assert allocators.functions(Allocator("glibc", None)) is None


def test_a_library_without_one_is_not(tmp_path: Path) -> None:
    built = library(tmp_path, "none", "int nothing;")
    with pytest.raises(Missing, match="is not loaded"):
        allocators.prove(Allocator("none", built))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    there, missing = allocators.available(["glibc", "coffer", "no_such"], tmp_path)
    assert [one.name for one in there] == ["glibc"]
    assert missing.keys() == {"coffer", "no_such"}
