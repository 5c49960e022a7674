#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wheels for glibc 2.28 and newer and for musl, x86-64 and aarch64, made on this machine of a release. `make wheels`:

  wheels.py RELEASE WORK TO [TAG...]   by default all of them, in the folder TO; WORK keeps what zig has compiled

Clang, the C libraries' names and versions, and libc++ are those of the wheel `ziglang`; zstd is what the sources of the
package `zstandard` bring. For glibc, GCC compiles what is preloaded, as everywhere, and links with zig's stubs."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

GLIBC = "2.28"
ZSTD = "zstandard==0.25.0"  # has zstd 1.5.7 as one file
FLAGS = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O2", "-DCMAKE_CXX_FLAGS_RELEASE=-O2",
         "-DCOFFER_TESTS=OFF", "-DCOFFER_CROSS_ALL=ON")
LIBRARIES = ("coffer_shared", "coffer_hardened_shared", "hoard_shared", "scalloc_shared", "cif_shared")
PRELOADED = ("coffer_record", "coffer_record_malloc", "coffer_moments", "coffer_python_frames")
COUNTING = ("coffer_record_count", "coffer_record_malloc_count", "coffer_count_tool")
PROGRAMS = ("coffer_trace_c", "coffer_trace_program", "coffer_collector", "coffer_replay_plan", "coffer_replay_play",
            "coffer_survey", "coffer_spread", "coffer_simulate")
PROGRAMS_OF_X86 = ("coffer_attach", "coffer_retain_program")
STUBS = ("libc.so.6", "libpthread.so.0", "libdl.so.2")
# Of these the C library's loader finds the allocator that is preloaded: no program of musl may be static that has one.
DYNAMIC = ("replay_play", "survey", "libcoffer_trace.so")


def run(*command: object, **options: object) -> None:
    """Silent, unless it fails."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    if done.returncode != 0:
        raise SystemExit(f"wheels: {' '.join(map(str, command))}\n{done.stdout[-6000:]}")


def zig() -> Path:
    """Of the environment that runs this."""
    return Path(sysconfig.get_path("purelib")) / "ziglang" / "zig"


@dataclass(frozen=True)
class Wheel:
    tag: str
    release: Path
    work: Path
    jobs: int
    quick: bool

    @property
    def arch(self) -> str:
        return "x86_64" if self.tag.endswith("_x86_64") else "aarch64"

    @property
    def musl(self) -> bool:
        return self.tag.startswith("musllinux")

    @property
    def target(self) -> str:
        return f"{self.arch}-linux-musl" if self.musl else f"{self.arch}-linux-gnu.{GLIBC}"

    @property
    def place(self) -> Path:
        return self.work / self.tag

    @cached_property
    def environment(self) -> dict[str, str]:
        """A cache of its own, so that it has one set of stubs."""
        cache = str(self.work / "zig-cache" / self.target)
        return os.environ | {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}

    def zig(self, *words: object) -> None:
        run(zig(), "cc", "-target", self.target, "-O2", "-fPIC", *words, env=self.environment)

    def stubs(self) -> Path:
        """A folder with zig's stubs of the C library, under the names that the loader knows."""
        folder = self.place / "stubs"
        folder.mkdir()
        (folder / "empty.c").touch()
        self.zig("-shared", folder / "empty.c", "-o", folder / "empty.so")
        if self.musl:
            name = f"libc.musl-{self.arch}.so.1"
            shutil.copy(self.stub("libc.so"), folder / name)
            run("patchelf", "--set-soname", name, folder / name)
        else:
            for name in STUBS:
                shutil.copy(self.stub(name), folder)
        return folder

    def stub(self, name: str) -> Path:
        return max((self.work / "zig-cache" / self.target).glob(f"o/*/{name}"), key=lambda path: path.stat().st_mtime)

    def zstd(self, sources: Path) -> list[str]:
        """CMake's options for zstd as an archive. Its assembler is in files that the package has not; qsort_r, for
        dictionaries, is not in musl 1.2.0."""
        folder = self.place / "zstd"
        folder.mkdir()
        self.zig("-fvisibility=hidden", "-DZSTD_DISABLE_ASM", "-DZDICT_QSORT=ZDICT_QSORT_C90", "-c",
                 sources / "zstd.c", "-o", folder / "zstd.o")
        run(f"{self.arch}-linux-gnu-ar", "rc", folder / "libzstd.a", folder / "zstd.o")
        return [f"-DCOFFER_ZSTD_INCLUDE={sources}", f"-DCOFFER_ZSTD={folder / 'libzstd.a'}"]

    def build(self, name: str, toolchain: str, targets: tuple[str, ...], *options: str) -> Path:
        folder = self.place / name
        run("cmake", "-S", self.release, "-B", folder, *FLAGS, f"-DCOFFER_ARCH={self.arch}", *options,
            f"-DCOFFER_TOGETHER={'ON' if self.quick else 'OFF'}",
            f"-DCMAKE_TOOLCHAIN_FILE={self.release}/cmake/toolchains/{toolchain}.cmake", env=self.environment)
        run("cmake", "--build", folder, "--parallel", self.jobs, "--target", *targets, env=self.environment)
        return folder

    def compiled(self, zstd: Path) -> Path:
        """A folder as a build directory, with all that the wheel takes from one (cmake/CofferWheel.cmake)."""
        stubs = self.stubs()
        # zig has nothing that __builtin_cpu_supports needs at run time; of GCC's archive no more is taken.
        gcc = subprocess.check_output([f"{self.arch}-linux-gnu-gcc", "-print-libgcc-file-name"], text=True).strip()
        options = [f"-DCOFFER_ZIG={zig()}", *self.zstd(zstd), "-DCMAKE_EXE_LINKER_FLAGS=-s",
                   f"-DCMAKE_CXX_STANDARD_LIBRARIES={gcc}"]
        if self.musl:
            programs = self.build("programs", "musl", (*LIBRARIES, "coffer_tools"), *options,
                                  f"-DCOFFER_MUSL_STUB={stubs}/libc.musl-{self.arch}.so.1")
            libraries = programs
            for name in DYNAMIC:
                run("patchelf", "--replace-needed", "libc.so", f"libc.musl-{self.arch}.so.1",
                    programs / "libexec/coffer" / name)
        else:
            counting = COUNTING if self.arch == os.uname().machine == "x86_64" else ()
            libraries = self.build("libraries", "manylinux-libraries", (*LIBRARIES, *PRELOADED, *counting),
                                   f"-DCOFFER_STUBS={stubs}")
            of_x86 = PROGRAMS_OF_X86 if self.arch == "x86_64" else ()
            programs = self.build("programs", "manylinux-programs", (*PROGRAMS, *of_x86), *options,
                                  f"-DCOFFER_GLIBC={GLIBC}")
        tree = self.place / "tree"
        shutil.copytree(libraries / "lib", tree / "lib", symlinks=True)
        shutil.copytree(programs / "libexec", tree / "libexec", symlinks=True)
        if (libraries / "libexec").is_dir():
            shutil.copytree(libraries / "libexec", tree / "libexec", dirs_exist_ok=True)
        # zig leaves debug information in what it compiles: half of the wheel.
        for file in (*tree.glob("lib/*.so*"), *tree.glob("libexec/coffer/*.so")):
            if not file.is_symlink():
                run(f"{self.arch}-linux-gnu-strip", "--strip-debug", file)
        shutil.copy(programs / "version", tree)
        shutil.copytree(self.release / "share", tree / "share")
        return tree

    def packed(self, tree: Path, to: Path) -> None:
        plain = self.place / "plain"
        run(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
            "--wheel-dir", plain, "--config-settings", f"cmake.define.COFFER_WHEEL_FROM={tree}", self.release)
        # pip can pack for this machine alone.
        (made,) = plain.glob("*.whl")
        run("wheel", "tags", "--remove", "--platform-tag", self.tag, made)
        (made,) = plain.glob("*.whl")
        said = subprocess.check_output(["auditwheel", "show", made], text=True, stderr=subprocess.DEVNULL)
        found = re.search(rf'"([a-z]+)_(\d+)_(\d+)_{self.arch}"', said)
        if found is None or [found[1], *map(int, found.groups()[1:])] > promised(self.tag):
            raise SystemExit(f"wheels: auditwheel takes {made.name} for another tag:\n{said}")
        shutil.move(made, to / made.name)

    def make(self, zstd: Path, to: Path) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        tree = self.compiled(zstd)
        self.packed(tree, to)
        shutil.rmtree(self.place)


def promised(tag: str) -> list[str | int]:
    """What of the tag can be compared: system and version."""
    system, major, minor, _ = tag.split("_", 3)
    return [system, int(major), int(minor)]


def zstd_sources(work: Path) -> Path:
    folder = work / ZSTD.replace("==", "-")
    if not folder.is_dir():
        packed = work / "packed"
        run(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:",
            "--dest", packed, ZSTD)
        with tarfile.open(next(packed.glob("*.tar.gz"))) as archive:
            archive.extractall(packed, filter="data")
        next(packed.glob("*/zstd")).rename(folder)
        shutil.rmtree(packed)
    return folder


TAGS = tuple(f"{system}_{arch}" for system in (f"manylinux_{GLIBC.replace('.', '_')}", "musllinux_1_2")
             for arch in ("x86_64", "aarch64"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("tags", nargs="*", metavar="TAG", help=", ".join(TAGS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="a folder's sources compiled as one: for trials")
    options = parser.parse_intermixed_args()
    if unknown := set(options.tags) - set(TAGS):
        parser.error(f"no wheel {', '.join(unknown)}; there are {', '.join(TAGS)}")
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    zstd = zstd_sources(work)
    for tag in options.tags or TAGS:
        print(f"wheels: {tag}", flush=True)
        Wheel(tag, options.release.resolve(), work, options.jobs, options.quick).make(zstd, options.to.resolve())


if __name__ == "__main__":
    main()
