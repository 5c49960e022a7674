# SPDX-License-Identifier: MIT
"""The Rust crate: its own tests over the libraries that were built, and that it compiles what CMake compiles.

COFFER_BUILD_DIR has the libraries. COFFER_LONG=1: also as a user does it, from the packed crate, compiling all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

BUILD_DIR = Path(os.environ["COFFER_BUILD_DIR"]).resolve()
ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "bindings/rust"
LONG = os.environ.get("COFFER_LONG") == "1"

sys.path.insert(0, str(ROOT / "tools"))
import test_arch  # noqa: E402

# A compiler and the sources of its standard library, by names that differ between the distributions.
RUST_PACKAGES = (("rustc-web", "rust-web-src"), ("rustc", "rust-src"))
MUSL = "x86_64-unknown-linux-musl"

pytestmark = pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is missing")
long = pytest.mark.skipif(not LONG, reason="make test-packages has it")


def cargo(*words: str | Path, target: Path, status: int = 0, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "LD_PRELOAD"}}
    # On one thread: one that ends frees what it kept while another test looks at the process's figures.
    given = {"CARGO_TARGET_DIR": str(target), "RUST_TEST_THREADS": "1"}
    done = subprocess.run(["cargo", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=1800, env=clean | given | environment)
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("target")


@pytest.fixture(scope="session")
def crate(target: Path) -> Path:
    """A copy: cargo writes Cargo.lock beside the manifest."""
    return Path(shutil.copytree(CRATE, target / "crate", ignore=shutil.ignore_patterns("target", "Cargo.lock")))


@pytest.mark.parametrize("features", ["profile", "replace", "replace,hardened"])
def test_its_own_tests(crate: Path, target: Path, features: str) -> None:
    """Coffer as the global allocator of a Rust program, and with C's malloc replaced too, hardened or not."""
    said = cargo("test", "--quiet", "--manifest-path", crate / "Cargo.toml", "--tests", "--features", features,
                 target=target, COFFER_LIB_DIR=str(BUILD_DIR / "lib"))
    assert f"{8 if features == 'profile' else 7} passed" in said
    assert ("1 passed" in said) == ("hardened" in features)


def test_installed_library_that_is_not_there(crate: Path, target: Path) -> None:
    said = cargo("build", "--manifest-path", crate / "Cargo.toml", target=target, status=101,
                 COFFER_LIB_DIR=str(target))
    assert "libcoffer_core.a is not in" in said
    said = cargo("build", "--manifest-path", crate / "Cargo.toml", "--features", "hardened", target=target, status=101,
                 COFFER_LIB_DIR=str(BUILD_DIR / "lib"))
    assert "the feature hardened with COFFER_LIB_DIR needs the feature replace" in said


def test_it_compiles_what_cmake_compiles() -> None:
    build = (CRATE / "build.rs").read_text()
    cmake = (ROOT / "cmake/CofferLibraries.cmake").read_text()
    folders = re.search(r"set\(coffer_folders ([^)]*)\)", cmake)[1].split()
    assert len(folders) > 10
    listed = re.search(r"const FOLDERS[^=]*= \[([^]]*)\]", build)[1]
    assert re.findall(r'"([^"]+)"', listed) == [*folders, "latency"]
    flags = (ROOT / "cmake/CofferFlags.cmake").read_text()
    wanted = set(re.findall(r"(?<=[ (])-f[\w=-]+", flags.partition("if(COFFER_SANITIZE)")[0])) - {"-fPIC"}
    assert len(wanted) > 12
    given = set(re.findall(r'"(-f[\w=-]+)"', build))
    assert given - {"-fexceptions", "-ffreestanding"} == wanted


def test_declarations_are_those_of_the_header() -> None:
    """The fields of Stats and the functions, by name and order: what sys.rs says is what the library has."""
    header = (ROOT / "include/coffer/coffer.h").read_text()
    rust = (CRATE / "src/sys.rs").read_text()
    fields = re.search(r"struct coffer_stats \{(.*?)\n\};", header, re.DOTALL)[1]
    wanted = re.findall(r"^  size_t (\w+);", fields, re.MULTILINE)
    assert len(wanted) >= 19 and re.findall(r"^    pub (\w+): usize,", rust, re.MULTILINE) == wanted
    functions = re.findall(r"pub fn (\w+)\(", rust)
    assert len(functions) >= 14
    for name in functions:
        assert re.search(rf"^COFFER_EXPORT .*\b{name}\(", header, re.MULTILINE), name


def test_what_is_packed(crate: Path, target: Path) -> None:
    names = set(cargo("package", "--list", "--allow-dirty", "--quiet", "--manifest-path", CRATE / "Cargo.toml",
                      target=target).splitlines())
    assert {"LICENSE", "native/include/coffer/coffer.h", "native/rt/src/rt.c", "native/src/api/malloc.cpp"} <= names
    assert not any("papers" in name or "fake" in name or "/build" in name for name in names)
    assert (CRATE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@long
def test_from_the_packed_crate(target: Path, tmp_path: Path) -> None:
    """Packed, unpacked somewhere else, compiled by cc alone; its tests with all features, and the example."""
    cargo("package", "--allow-dirty", "--no-verify", "--manifest-path", CRATE / "Cargo.toml", target=target)
    (packed,) = (target / "package").glob("coffer-*.crate")
    assert packed.stat().st_size < 1 << 20
    with tarfile.open(packed) as archive:
        assert not any(member.issym() or member.islnk() for member in archive)
    subprocess.run(["tar", "xf", packed, "--directory", tmp_path], check=True)
    (folder,) = tmp_path.iterdir()
    manifest = ["--manifest-path", folder / "Cargo.toml"]
    clean = tmp_path / "target"
    kind = ["--release", "--features", "profile,replace"]  # the same for both: compiled once
    assert "8 passed" in cargo("test", "--tests", *kind, *manifest, target=clean)
    said = cargo("run", "--example", "parallel", *kind, *manifest, target=clean)
    assert "200000 words, 2144693 letters" in said and "on Coffer 0." in said
    program = clean / "release/examples/parallel"
    needed = subprocess.check_output(["readelf", "--dynamic", "--wide", program], text=True)
    assert "libc.so.6" in needed and "libstdc++" not in needed and "libcoffer" not in needed
    assert "1 passed" in cargo("test", "--test", "hardened", "--features", "hardened", *manifest, target=clean)
    cargo("doc", "--no-deps", "--all-features", *manifest, target=clean, DOCS_RS="1", RUSTDOCFLAGS="-D warnings")


def rust_with_sources() -> Path | None:
    """Debian's compiler, unpacked and not installed, with the sources of its standard library; None: not to be had."""
    root = BUILD_DIR / "rust-with-sources"
    if root.is_dir() or not shutil.which("apt-get"):
        return root if root.is_dir() else None
    for names in RUST_PACKAGES:
        shown = subprocess.run(["apt-get", "-qq", "-s", "install", "--no-install-recommends", *names],
                               capture_output=True, text=True)
        wanted = re.findall(r"^Inst (\S+)", shown.stdout, re.MULTILINE)
        if shown.returncode != 0 or not set(names) <= set(wanted):
            continue
        work = root.with_suffix(".new")
        work.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=", "download", *wanted], cwd=work).returncode:
            return None
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, work / "root"], check=True)
        (work / "root").rename(root)
        shutil.rmtree(work)
        return root
    return None


def zig_driver(folder: Path, language: str) -> Path:
    """A compiler and linker as cc and rustc call one, by zig: without what zig takes from nobody."""
    driver = folder / f"zig-{language}"
    driver.write_text(f"""#!/bin/bash
words=()
for word in "$@"; do
  case $word in
    --target=*) ;;
    -Wl,/*) words+=("${{word#-Wl,}}") ;;
    *) words+=("$word") ;;
  esac
done
exec {test_arch.zig()} {language} -target x86_64-linux-musl "${{words[@]}}"
""")
    driver.chmod(0o755)
    return driver


@long
def test_fully_static_with_musl(crate: Path, target: Path, tmp_path: Path) -> None:
    """The crate's tests as --target x86_64-unknown-linux-musl, with C's malloc replaced. No package has that target's
    standard library, so it is compiled from its sources; what that takes is an unstable option."""
    root = rust_with_sources()
    if root is None:
        pytest.skip("no package with the sources of Rust's standard library")
    try:
        cc, cxx = (zig_driver(tmp_path, language) for language in ("cc", "c++"))
    except subprocess.CalledProcessError:
        pytest.skip(f"{test_arch.ZIG}: not to be had")
    variables = {f"CC_{MUSL.replace('-', '_')}": str(cc), f"CXX_{MUSL.replace('-', '_')}": str(cxx),
                 f"CARGO_TARGET_{MUSL.upper().replace('-', '_')}_LINKER": str(cc),
                 "RUSTC": str(root / "usr/bin/rustc"), "RUSTC_BOOTSTRAP": "1",
                 "LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu"),
                 "RUSTFLAGS": "-C link-self-contained=no"}
    said = cargo("test", "--tests", "--release", "-Zbuild-std=std,panic_unwind,test", "--target", MUSL,
                 "--features", "replace", "--manifest-path", crate / "Cargo.toml", target=target / "musl", **variables)
    assert "7 passed" in said
    programs = [file for file in (target / "musl" / MUSL / "release/deps").glob("allocator-*") if not file.suffix]
    headers = subprocess.check_output(["readelf", "--program-headers", "--wide", programs[0]], text=True)
    assert "INTERP" not in headers  # fully static
