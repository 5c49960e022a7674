# SPDX-License-Identifier: MIT
"""Alpine's layout in a folder, and stand-ins for some of its packages.

Alpine's own packages are not asked for. musl and busybox are Debian's (busybox static); CMake and Ninja are those of
the wheels for musl. The compiler is this machine's GCC with its own C library beside it, set to compile and link for
musl: Alpine's g++ is a GCC, too. `apk add` copies what is prepared for a name, and fails for any other name.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ROOT / "build-arch"
sys.path.insert(0, str(ROOT / "tools"))
import arch_debian  # noqa: E402

FOLDERS = ("bin", "dev", "etc", "lib", "opt", "proc", "root", "sbin", "tmp", "usr/bin", "usr/lib")
MUSL = "usr/lib/x86_64-linux-musl"
APK = """#!/bin/sh
# Stands for Alpine's: apk add --no-cache NAME...
[ "$1 $2" = "add --no-cache" ] || { echo "apk: no stand-in for '$*'" >&2; exit 1; }
shift 2
for name in "$@"; do
  [ -d "/packages/$name" ] || { echo "apk: no stand-in for the package $name" >&2; exit 1; }
  cp -a "/packages/$name/." /
done
"""
# As musl's own wrapper for GCC has them.
SPECS = """*link_libgcc:
-L/usr/lib/x86_64-linux-musl -L .%s

*libgcc:
libgcc.a%s

*startfile:
%{!shared: /usr/lib/x86_64-linux-musl/Scrt1.o} /usr/lib/x86_64-linux-musl/crti.o crtbeginS.o%s

*endfile:
crtendS.o%s /usr/lib/x86_64-linux-musl/crtn.o

*link:
-dynamic-linker /lib/ld-musl-x86_64.so.1 -nostdlib %{shared:-shared} %{static:-static} %{rdynamic:-export-dynamic}

"""
# The C++ library's headers were configured for glibc; these are what they take from it and musl lacks.
COMPILER = """#!/bin/sh
exec {real} -specs=/usr/lib/musl.specs -nostdinc {headers} -isystem /usr/include/x86_64-linux-musl \\
  -isystem {gcc}/include -isystem /usr/include '-D__GLIBC_PREREQ(a,b)=0' -D__locale_t=locale_t "$@"
"""
GLIBC_CLOCKS = re.compile(r"^.*define _GLIBCXX_USE_PTHREAD_(?:COND|MUTEX|RWLOCK)_CLOCK.*\n", re.MULTILINE)


class Missing(Exception):
    """Something that is fetched cannot be had."""


def package(pattern: str, name: str) -> Path:
    found = arch_debian.unpacked("x86_64", pattern, FETCHED / "debian" / f"{name}-x86_64")
    if found is None:
        raise Missing(f"no package of {name}")
    return found


def wheel(requirement: str) -> Path:
    """The wheel for musl, unpacked."""
    folder = FETCHED / "wheels-musl" / requirement.replace("==", "-")
    if not folder.is_dir():
        work = folder.with_suffix(".new")
        shutil.rmtree(work, ignore_errors=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                               "--no-deps", "--only-binary", ":all:", "--platform", "musllinux_1_2_x86_64",
                               "--dest", work, requirement], capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"no wheel of {requirement} for musl: {done.stderr[-200:]}")
        (packed,) = work.glob("*.whl")
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(work)
        packed.unlink()
        work.rename(folder)
    return folder


def layout(root: Path) -> None:
    """The base system: musl's loader and busybox."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    musl, busybox = package("^musl$", "musl"), package("^busybox-static$", "busybox")
    shutil.copy(next(musl.rglob("x86_64-linux-musl/libc.so")), root / "lib/ld-musl-x86_64.so.1")
    (root / "lib/libc.musl-x86_64.so.1").symlink_to("ld-musl-x86_64.so.1")
    shutil.copy(next(path for path in busybox.rglob("busybox") if path.parent.name == "bin"), root / "bin/busybox")
    subprocess.run(["chroot", root, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    (root / "usr/bin/env").symlink_to("/bin/busybox")


def program(requirement: str, path: str, folder: Path) -> None:
    """A wheel's program in usr/bin."""
    name = requirement.partition("==")[0]
    shutil.copytree(wheel(requirement), folder / "opt" / name, symlinks=True)
    (folder / "opt" / name / path).chmod(0o755)
    (folder / "usr/bin").mkdir(parents=True, exist_ok=True)
    (folder / "usr/bin" / Path(path).name).symlink_to(f"/opt/{name}/{path}")


def linux_headers(folder: Path) -> None:
    from_package = package("^linux-libc-dev$", "linux-libc-dev") / "usr/include"
    for name in ("linux", "asm-generic", "x86_64-linux-gnu/asm"):
        source = from_package / name
        shutil.copytree(source.resolve(), folder / "usr/include" / Path(name).name)


def asked(*words: str) -> Path:
    return Path(subprocess.check_output(words, text=True).strip())


def take(path: Path, folder: Path) -> None:
    """A file of this machine, at the same place, and the libraries that its loader would load."""
    seen = folder / str(path.parent).lstrip("/") / path.name
    if seen.exists():
        return
    seen.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, seen)
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", said):
        take(Path(library), folder)


def compiler(folder: Path) -> None:
    """GCC and binutils of this machine, with wrappers that have it compile and link for musl."""
    gcc = asked("gcc", "-print-file-name=libgcc.a").parent
    version = gcc.name
    for name in ("cc1", "cc1plus", "collect2"):
        take(asked("gcc", f"-print-prog-name={name}"), folder)
    take(asked("gcc", "-print-file-name=liblto_plugin.so"), folder)
    for name in ("libgcc.a", "crtbeginS.o", "crtendS.o"):
        take(gcc / name, folder)
    shutil.copytree(gcc / "include", folder / str(gcc).lstrip("/") / "include")
    binaries = folder / "usr/bin"
    binaries.mkdir(parents=True, exist_ok=True)
    for name in ("as", "ld", "ar", "ranlib", "nm", "objcopy", "objdump", "readelf", "strip"):
        real = Path(f"/usr/bin/{name}").resolve()
        take(real, folder)
        (binaries / name).symlink_to(real)
    cxx = f"usr/include/c++/{version}"
    target = f"usr/include/x86_64-linux-gnu/c++/{version}"
    shutil.copytree(f"/{cxx}", folder / cxx)
    shutil.copytree(f"/{target}", folder / target)
    config = folder / target / "bits/c++config.h"
    config.write_text(GLIBC_CLOCKS.sub("", config.read_text()))
    musl = package("^musl-dev$", "musl-dev")
    for name in ("usr/include/x86_64-linux-musl", MUSL):
        shutil.copytree(musl / name, folder / name, symlinks=True)
    (folder / MUSL / "libc.so").unlink(missing_ok=True)
    shutil.copy(next(package("^musl$", "musl").rglob("x86_64-linux-musl/libc.so")), folder / MUSL / "libc.so")
    # The driver names it; what is compiled here needs nothing of it.
    subprocess.run(["ar", "rc", folder / MUSL / "libstdc++.a"], check=True)
    (folder / "usr/lib/musl.specs").write_text(SPECS)
    headers = {"gcc": "", "g++": f"-isystem /{cxx} -isystem /{target}"}
    for name, given in headers.items():
        real = Path(f"/usr/bin/{name}").resolve()
        take(real, folder)
        (binaries / name).write_text(COMPILER.format(real=real, headers=given, gcc=gcc))
        (binaries / name).chmod(0o755)
    (binaries / "cc").symlink_to("gcc")
    (binaries / "c++").symlink_to("g++")


def apk(root: Path) -> None:
    """The package manager, with the packages that a Dockerfile of this tree may add."""
    (root / "sbin/apk").write_text(APK)
    (root / "sbin/apk").chmod(0o755)
    packages = root / "packages"
    program("cmake==4.4.5", "cmake/data/bin/cmake", packages / "cmake")
    program("ninja==1.13.2", "ninja-1.13.2.data/scripts/ninja", packages / "samurai")
    linux_headers(packages / "linux-headers")
    compiler(packages / "g++")
