# SPDX-License-Identifier: MIT
"""The allocators that are compared: where their libraries are, how a program is run under them, and the proof that it
really was."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from coffer_bench import processes
from coffer_bench.errors import BenchError

TOP = Path(__file__).resolve().parents[2]
THP_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# Peers by the name that the dynamic loader knows, and the Debian package that has it.
PEERS = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc2"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    "mimalloc": ("libmimalloc.so.2", "libmimalloc2.0"),
    "tbb": ("libtbbmalloc_proxy.so.2", "libtbbmalloc2"),
}
# Peers that Debian has not, or not as new: built from their crates by peers.py, where there is cargo.
CRATES = ["mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "jemalloc5", "tcmalloc-google"]
# Those that are built against attacks: for test/attack, and no part of the bench's own list.
HARDENED = ["mimalloc3-secure", "snmalloc-checks", "hardened-malloc", "hardened-malloc-light"]
# The one with restartable sequences.
SEQUENCES_LIBRARY = "libtcmalloc_google_peer.so"
OURS = {"coffer": "lib/libcoffer.so", "nocheck": "lib/variants/libcoffer_nocheck.so"}
NAMES = ["glibc", *PEERS, *OURS]
# The papers' own, built over the same ground as Coffer (docs/papers.md), and the papers.
PAPERS = {
    "hoard": "Berger and others, ASPLOS 2000",
    "scalloc": "Aigner and others, OOPSLA 2015",
    "cif": "Afek and others, ISMM 2011",
}


def is_used(name: str) -> bool:
    """Whether people use it: neither one of the papers' allocators, written anew here, nor a build of Coffer. Only such
    a one can be the best other of a row."""
    return name not in PAPERS and name not in OURS


VARIABLES = ["COFFER_CONF", *(f"{name.upper()}_CONF" for name in PAPERS)]


@dataclass(frozen=True)
class Allocator:
    name: str
    library: Path | None  # None: the C library's own
    options: str = ""  # of its variable, after the caller's own

    @property
    def has_sequences(self) -> bool:
        """Whether it takes the kernel's restartable sequences for itself, and its slow path without them. Also where it
        is given by its path."""
        return self.library is not None and self.library.name == SEQUENCES_LIBRARY

    @property
    def variable(self) -> str:
        """Where its options come from."""
        match = re.match(r"lib(\w+)\.so", self.library.name) if self.library else None
        return f"{match[1].upper()}_CONF" if match and match[1] in PAPERS else "COFFER_CONF"

    def environment(self) -> dict[str, str]:
        """A small one, so that nothing set for the caller's shell changes an allocator. COFFER_CONF and its like are
        let through: options are there to be measured."""
        keep = {name: os.environ[name] for name in ("PATH", *VARIABLES) if name in os.environ}
        if self.library:
            keep["LD_PRELOAD"] = str(self.library)
        if self.has_sequences:
            # A thread has one area for them, and glibc takes it unless it is told not to.
            keep["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
        if self.options:
            keep[self.variable] = ",".join(filter(None, [keep.get(self.variable), self.options]))
        return keep

    def program_environment(self, home: Path) -> dict[str, str]:
        """For programs that know nothing of benchmarks. glibc is preloaded too, so that a program linked with another
        allocator (Debian's redis-server comes with jemalloc) really runs over glibc."""
        place = str(home)
        return {**self.environment(), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": place, "TMPDIR": place,
                "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "LD_PRELOAD": str(self.library or "libc.so.6")}

    @property
    def mapped(self) -> str:
        """As /proc/PID/maps shows it."""
        return str(self.library.resolve()) if self.library else "libc.so.6"


def loader_libraries() -> dict[str, Path]:
    """Every library that the dynamic loader finds by name; the first of each name is the one it takes."""
    command = next((path for path in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if Path(path).exists()), "ldconfig")
    listing = subprocess.run([command, "-p"], capture_output=True, text=True, check=True).stdout
    found: dict[str, Path] = {}
    for match in re.finditer(r"^\s+(\S+) \((.*)\) => (\S+)$", listing, re.MULTILINE):
        if "64" in match[2] or "AArch64" in match[2]:
            found.setdefault(match[1], Path(match[3]))
    return found


def crate_library(name: str, build_dir: Path) -> Path:
    return build_dir.resolve() / "peers" / "target" / "release" / f"lib{name.replace('-', '_')}_peer.so"


def is_checkout() -> bool:
    """And not an installed command, which has neither the workloads nor the recipes."""
    return (TOP / "bench" / "coffer_bench").is_dir()


def how_to_build(library: Path, build_dir: Path) -> str:
    if is_checkout():
        return "coffer bench peers builds it"
    place = library.relative_to(build_dir.resolve())
    return f"coffer bench peers builds it in a checkout, which has it then by its path, CHECKOUT/build/{place}"


def find(names: list[str], build_dir: Path) -> list[Allocator]:
    """The allocators of these names; with a slash, it is a library's path. One that is missing is an error, never a gap
    in a table."""
    libraries = loader_libraries()
    result = []
    for name in names:
        if name == "glibc":
            result.append(Allocator(name, None))
        elif "/" in name:
            if not Path(name).is_file():
                raise BenchError(f"{name}: no such library")
            result.append(Allocator(name, Path(name).resolve()))
        elif name in PEERS:
            library, package = PEERS[name]
            if library not in libraries:
                raise BenchError(f"{library} is missing; Debian and Ubuntu have it in the package {package}")
            result.append(Allocator(name, libraries[library]))
        elif name in CRATES or name in HARDENED:
            library = crate_library(name, build_dir)
            if not library.exists():
                raise BenchError(f"{library} is missing: {how_to_build(library, build_dir)}")
            result.append(Allocator(name, library))
        elif name in OURS or name in PAPERS:
            library = build_dir.resolve() / OURS.get(name, f"lib/lib{name}.so")
            if not library.exists():
                raise BenchError(f"{library} is missing: build it first")
            result.append(Allocator(name, library))
        else:
            known = " ".join([*NAMES, *CRATES, *HARDENED, *PAPERS])
            raise BenchError(f"no allocator is called {name}; there are: {known}, and any library by its path, with a "
                             "slash")
    return result


def parse_line(line: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in line.split() if "=" in pair)


def verify_library(allocator: Allocator, reported: str) -> None:
    """The workload says which file its malloc came from. A library that could not be preloaded is only a warning to
    the loader; here it is an error."""
    real = Path(reported).resolve()
    if allocator.library is None:
        # musl's loader is its C library.
        if not re.match(r"libc[.-]|ld-musl-", real.name):
            raise BenchError(f"glibc was to be measured, but malloc came from {real}")
    elif real != allocator.library.resolve():
        raise BenchError(f"{allocator.name} was not loaded: malloc came from {real}, not {allocator.library}")


def run_text(allocator: Allocator, command: list[str], preload: bool = True, timeout: float = 60.0) -> str:
    """Runs a workload under the allocator and returns what it prints. preload=False: the program itself runs under the
    C library's allocator, and starts others under the one given."""
    environment = allocator.environment()
    if not preload:
        environment.pop("LD_PRELOAD", None)
    return processes.execute(command, environment, timeout=timeout, name=allocator.name).stdout.decode()


def run(allocator: Allocator, command: list[str], preload: bool = True, timeout: float = 60.0) -> dict[str, str]:
    """Runs a workload and returns its line of results."""
    result = parse_line(run_text(allocator, command, preload, timeout))
    verify_library(allocator, result.pop("library", "nothing"))
    return result


def run_json(allocator: Allocator, command: list[str], timeout: float = 120.0) -> dict[str, float]:
    """Runs a memory pattern and returns its figures."""
    text = run_text(allocator, command, timeout=timeout)
    try:
        result = json.loads(text)
        verify_library(allocator, result.pop("library"))
        del result["pattern"]
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{' '.join(command)} under {allocator.name}: no figures in {text!r}") from error
    return {key: float(value) for key, value in result.items()}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def first_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else "unknown"


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def machine_facts(allocators: list[Allocator]) -> dict[str, object]:
    """What another person needs to judge the figures."""
    commit = ""
    if shutil.which("git"):
        asked = ["git", "-C", str(TOP), "describe", "--always", "--dirty"]
        commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": first_match(r"^model name\s*:(.*)$", read(Path("/proc/cpuinfo"))),
        "processors": len(os.sched_getaffinity(0)),
        "memory_kib": int(first_match(r"^MemTotal:\s*(\d+)", read(Path("/proc/meminfo")))),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "system": first_match(r'^PRETTY_NAME="(.*)"$', read(Path("/etc/os-release"))),
        "huge_pages": huge_pages(),
        "load": os.getloadavg()[0],
        "commit": commit or "none",
        "coffer_conf": os.environ.get("COFFER_CONF", ""),
        "libraries": {
            allocator.name: {"file": allocator.library.resolve().name, "sha256": sha256(allocator.library)}
            for allocator in allocators
            if allocator.library
        },
    }


def huge_pages() -> str:
    """The system's setting: always, madvise or never."""
    return first_match(r"\[(\w+)\]", read(THP_SETTING))


def describe(facts: dict[str, object]) -> str:
    return (
        f"{facts['processor']}, {facts['processors']} processors, {facts['system']}, Linux {facts['kernel']}, "
        f"{facts['libc']}, huge pages {facts['huge_pages']}, load {facts['load']:.2f}"
    )
