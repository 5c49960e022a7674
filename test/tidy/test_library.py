# SPDX-License-Identifier: MIT
"""What the built libraries define, need and contain, read with nm and readelf.

COFFER_LIB_DIR names the folder with libcoffer.so, libcoffer.a and libcoffer_core.a. COFFER_INCLUDE_DIR has coffer/.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

LIB_DIR = Path(os.environ["COFFER_LIB_DIR"])
HEADER = Path(os.environ["COFFER_INCLUDE_DIR"]) / "coffer/coffer.h"
SOURCES = Path(__file__).resolve().parents[2] / "src"
# The papers' allocators have the same shim, and so the same names.
PAPERS = [LIB_DIR / f"lib{header.stem}.so" for header in sorted(SOURCES.glob("papers/*/*.hpp"))
          if header.stem == header.parent.name]
SHARED = [LIB_DIR / "libcoffer.so", LIB_DIR / "libcoffer_hardened.so", LIB_DIR / "variants/libcoffer_nocheck.so",
          *PAPERS]

C_NAMES = set(
    "malloc free calloc realloc aligned_alloc posix_memalign memalign valloc pvalloc malloc_usable_size free_sized "
    "free_aligned_sized cfree malloc_trim mallinfo mallinfo2 malloc_info malloc_stats mallopt".split()
)
# Mangled: array or not, nothrow or not, aligned or not; delete also sized or not.
NEW_NAMES = {f"_Z{kind}m{align}{nothrow}" for kind in ("nw", "na") for align in ("", "St11align_val_t")
             for nothrow in ("", "RKSt9nothrow_t")}
DELETE_NAMES = {f"_Z{kind}Pv{more}{align}" for kind in ("dl", "da") for align in ("", "St11align_val_t")
                for more in ("", "m")}
DELETE_NAMES |= {f"_Z{kind}Pv{align}RKSt9nothrow_t" for kind in ("dl", "da") for align in ("", "St11align_val_t")}
CPP_NAMES = NEW_NAMES | DELETE_NAMES
# glibc's own names for some of them: wrappers call these and then free the block with free.
GLIBC_NAMES = {f"__libc_{name}" for name in "malloc free calloc realloc memalign valloc pvalloc cfree".split()}
GLIBC_NAMES.add("__posix_memalign")
# What clang's -fsanitize=alloc-token calls in place of some of them: of the hardened build only.
TOKEN_NAMES = {f"__alloc_token_{kind}{name}" for kind in ("", "0_", "1_") for name in (
    *"malloc calloc realloc reallocarray aligned_alloc memalign posix_memalign valloc pvalloc".split(), *NEW_NAMES)}
# Functions of libc that allocate, format or read the environment unsafely: the library must not need them. (It needs
# fprintf for malloc_info, whose stream is the caller's, and dlopen to find a C++ runtime that was loaded late.)
FORBIDDEN = re.compile(
    r"^(malloc|calloc|realloc|free|strdup|getenv|strerror(_r)?|(v|s|vs|vf|as|vas)?printf|puts|"
    r"__sprintf_chk|__tls_get_addr|__cxa_guard_\w+|_Znw.*|_Zdl.*)$"
)
MAX_TLS_BYTES = 64


class Symbol(NamedTuple):
    name: str
    kind: str
    bind: str
    visibility: str
    section: str

    @property
    def is_public(self) -> bool:
        """Seen by other object files and libraries."""
        return (self.bind in {"GLOBAL", "WEAK", "UNIQUE"} and self.visibility in {"DEFAULT", "PROTECTED"}
                and self.section != "UND")


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def symbols(file: Path, dynamic: bool = False) -> list[Symbol]:
    found = []
    for line in output("readelf", "--wide", "--dyn-syms" if dynamic else "--symbols", file).splitlines():
        match = re.match(r"\s*\d+: [0-9a-f]+\s+\S+ (\w+)\s+(\w+)\s+(\w+)\s+(?:\[.*\]\s+)?(\w+)\s+(\S+)", line)
        if match:
            kind, bind, visibility, section, name = match.groups()
            found.append(Symbol(name.split("@")[0], kind, bind, visibility, section))
    assert found, f"no symbols in {file}"
    return found


def header_names() -> set[str]:
    names = set(re.findall(r"^COFFER_EXPORT [^;(]*?\b(coffer_\w+)\(", HEADER.read_text(), re.MULTILINE))
    assert len(names) >= 20
    return names


def public_names(file: Path, dynamic: bool = False) -> set[str]:
    # The version node itself is listed as an absolute symbol.
    return {symbol.name for symbol in symbols(file, dynamic) if symbol.is_public and symbol.section != "ABS"}


@pytest.mark.parametrize("library", SHARED, ids=lambda path: path.name)
def test_exports(library: Path) -> None:
    wanted = C_NAMES | CPP_NAMES | GLIBC_NAMES | header_names()
    if library in PAPERS:
        # The latency heaps are no part of an allocator.
        wanted -= {name for name in header_names() if name.startswith("coffer_heap_")} - {"coffer_heap_stats"}
    if "hardened" in library.name:
        wanted |= TOKEN_NAMES
    exported = public_names(library, dynamic=True)
    assert exported - wanted == set(), "exported, but not on the list"
    assert wanted - exported == set(), "on the list, but not exported"


def test_lists_are_sane() -> None:
    assert len(NEW_NAMES) == 8 and len(DELETE_NAMES) == 12
    assert not any("reallocarray" in name for name in C_NAMES | GLIBC_NAMES)


def test_versions() -> None:
    """malloc answers references of any version; coffer_ names have their own."""
    listed = output("nm", "--dynamic", "--defined-only", SHARED[0]).split()
    assert "malloc" in listed and "free" in listed
    assert "coffer_malloc@@COFFER_0" in listed


@pytest.mark.parametrize("library", SHARED, ids=lambda path: path.name)
def test_needs_libc_only(library: Path) -> None:
    dynamic = output("readelf", "--wide", "--dynamic", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    assert needed and needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic and "TEXTREL" not in dynamic
    listed = output("ldd", library)
    assert "not found" not in listed and "libstdc++" not in listed and "libgcc" not in listed
    undefined = [symbol for symbol in symbols(library, dynamic=True) if symbol.section == "UND" and symbol.name]
    forbidden = {symbol.name for symbol in undefined if symbol.bind == "GLOBAL" and FORBIDDEN.match(symbol.name)}
    assert forbidden == set()
    # Strong references must be libc's. What only C++ programs have is weak, and absent in C programs.
    strong_cpp = {symbol.name for symbol in undefined
                  if symbol.bind == "GLOBAL" and symbol.name.startswith(("_Z", "__cxa", "__gxx", "_Unwind"))}
    assert strong_cpp == set()


@pytest.mark.parametrize("name", ["libcoffer", "libcoffer_hardened"])
def test_dynamic_section(name: str) -> None:
    library = LIB_DIR / f"{name}.so"
    dynamic = output("readelf", "--wide", "--dynamic", library)
    assert f"soname: [{name}.so.0]" in dynamic
    assert "NOW" in dynamic and "NODELETE" in dynamic
    assert (LIB_DIR / f"{name}.so.0").resolve() == library.resolve()
    assert re.fullmatch(rf"{name}\.so\.0\.\d+\.\d+", library.resolve().name)
    headers = output("readelf", "--wide", "--program-headers", library)
    assert "GNU_RELRO" in headers
    assert re.search(r"GNU_STACK.* RW ", headers), "the stack must not be executable"


@pytest.mark.parametrize("library", SHARED, ids=lambda path: path.name)
def test_thread_local_storage(library: Path) -> None:
    """A few words, reached from the thread pointer: dlopen needs surplus TLS for it, and lazy TLS calls malloc."""
    headers = output("readelf", "--wide", "--program-headers", library)
    match = re.search(r"^\s*TLS\s+0x\S+ 0x\S+ 0x\S+ 0x\S+ (0x\S+) .*?(0x\S+)$", headers, re.MULTILINE)
    assert match, "no TLS segment: where is the heap?"
    size, alignment = (int(text, 16) for text in match.groups())
    assert size <= MAX_TLS_BYTES
    assert alignment <= MAX_TLS_BYTES
    relocations = output("readelf", "--wide", "--relocs", library)
    assert not re.search(r"DTPMOD|DTPOFF|TLSDESC", relocations)


@pytest.mark.parametrize("library", ["libcoffer.a", "libcoffer_hardened.a"])
def test_static_library(library: str) -> None:
    names = public_names(LIB_DIR / library)
    wanted = C_NAMES | CPP_NAMES | GLIBC_NAMES | header_names() | (TOKEN_NAMES if "hardened" in library else set())
    assert names - wanted == set()
    assert wanted - names == set()
    members = output("ar", "t", LIB_DIR / library).split()
    assert len(members) == 1, "one object, so that all of it replaces malloc or nothing does"


def test_core_library_replaces_nothing() -> None:
    names = public_names(LIB_DIR / "libcoffer_core.a")
    assert names == header_names()


@pytest.mark.parametrize("library", ["libcoffer.so", "libcoffer.a", "libcoffer_core.a", "libcoffer_hardened.so"])
def test_no_reallocarray(library: str) -> None:
    """glibc's checks the product and calls realloc, which is ours."""
    names = {symbol.name for symbol in symbols(LIB_DIR / library)} - TOKEN_NAMES
    assert not any(name.endswith("reallocarray") for name in names)


@pytest.mark.parametrize("library", ["libcoffer.a", "libcoffer_core.a", "libcoffer_hardened.a"])
def test_archives_need_no_cpp_runtime(library: str) -> None:
    listed = symbols(LIB_DIR / library)
    defined = {symbol.name for symbol in listed if symbol.section != "UND"}
    strong = {symbol.name for symbol in listed if symbol.section == "UND" and symbol.bind == "GLOBAL"} - defined
    cpp = {name for name in strong if name.startswith(("_Z", "__cxa", "__gxx", "_Unwind"))}
    assert cpp | {name for name in strong if FORBIDDEN.match(name)} == set()
