# SPDX-License-Identifier: MIT
"""Runs tests of a cross build on a kernel of Debian with larger pages, in qemu-system: the programs, the files that
they name and an init (test/platforms/init.c) are all that there is of a system."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_RESULT = re.compile(r"^COFFER-RESULT (\S+) (-?\d+)\r?$", re.MULTILINE)
_PAGE = re.compile(r"^COFFER-PAGE (\d+)\r?$", re.MULTILINE)


@dataclass(frozen=True)
class Test:
    name: str
    variables: tuple[str, ...]
    command: tuple[str, ...]


def plain(name: str, words: Sequence[str], build: Path) -> Test | None:
    """The test without the emulator and without Python; None where it needs more than a program that ends well."""
    variables: list[str] = []
    rest = list(words)
    if any(word.endswith("run_case.py") for word in rest):
        rest = rest[next(at for at, word in enumerate(rest) if word.endswith("run_case.py")) + 1:]
        while rest and rest[0].startswith("--"):
            option = rest.pop(0)
            if option == "--emulator" or option == "--timeout":
                rest.pop(0)
            elif option == "--library":
                variables.append(f"LD_PRELOAD={rest.pop(0)}")
            elif option == "--conf":
                variables.append(f"COFFER_CONF={rest.pop(0)}")
            else:
                return None
    else:
        while rest and not rest[0].startswith(f"{build}/"):
            word = rest.pop(0)
            if word == "-E" and rest and "=" in rest[0]:
                variables.append(rest.pop(0))
            elif word in ("sh", "/bin/sh", "/usr/bin/sh") or "python" in word:
                return None
    return Test(name, tuple(variables), tuple(rest)) if rest else None


def listed(build: Path, names: Iterable[str]) -> list[Test]:
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True,
                           check=True)
    commands = {test["name"]: test["command"] for test in json.loads(shown.stdout)["tests"] if test.get("command")}
    tests = []
    for name in names:
        # The unit tests' cases that count pages of 4 KiB are left out as where Coffer is told of larger ones.
        words = commands.get(f"{name}.pages_16k", commands[name])
        if ".pages_" not in name and (test := plain(name, words, build)) is not None:
            tests.append(test)
    return tests


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An archive as the kernel reads it ("newc"): mode and content by path, folders before what is in them."""
    out = bytearray()
    for number, (name, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], start=1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        for part in (b"070701" + b"".join(b"%08X" % field for field in fields) + path, data):
            out += part
            out += bytes(-len(out) % 4)
    return bytes(out)


def system(tests: Sequence[Test], init: Path, strip: str, work: Path) -> bytes:
    files: dict[str, tuple[int, bytes]] = {}

    def folder(path: Path) -> None:
        for above in (*reversed(path.parents), path):
            name = str(above).lstrip("/")
            if name:
                files.setdefault(name, (0o040755, b""))

    def add(path: Path, place: Path) -> None:
        small = work / "stripped"
        shutil.copy(path, small)
        subprocess.run([strip, "--strip-debug", small], check=False, stderr=subprocess.DEVNULL)
        folder(place.parent)
        files[str(place).lstrip("/")] = (0o100755, small.read_bytes())

    for name in ("proc", "sys", "dev", "tmp"):
        folder(Path("/") / name)
    add(init, Path("/init"))
    words = {part for test in tests for word in (*test.variables, *test.command) for part in re.split("[=:]", word)}
    for path in sorted({Path(word) for word in words if word.startswith("/") and Path(word).is_file()}):
        add(path, path)
        interpreter = re.search(rb"\0(/[!-~]+/libc\.so|/lib/ld-musl-\w+\.so\.1)\0", path.read_bytes())
        if interpreter and Path(interpreter[1].decode()).is_file():
            add(Path(interpreter[1].decode()), Path(interpreter[1].decode()))
        needed = set(re.findall(rb"libcoffer\.so\.\d+", path.read_bytes()))
        for library in needed:
            for found in path.parents[0].parents[0].rglob(library.decode()):
                add(found.resolve(), found)
    lines = ["\t".join((test.name, str(len(test.variables)), *test.variables, *test.command)) for test in tests]
    files["tests"] = (0o100644, "".join(f"{line}\n" for line in lines).encode())
    return cpio(files)


def run(kernel: Path, archive: Path, log: Path, seconds: int) -> str:
    """What the system says until it ends; it is in `log` meanwhile."""
    command = ["qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", "3072",
               "-nic", "none", "-display", "none", "-serial", f"file:{log}", "-monitor", "none", "-no-reboot",
               "-kernel", kernel, "-initrd", archive, "-append", "console=ttyAMA0 quiet panic=-1"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"test_arch: the system was ended after {seconds} seconds", flush=True)
    return log.read_text(errors="replace")


def results(said: str, page: int) -> dict[str, int]:
    """Status of each test that ended."""
    found = _PAGE.search(said)
    if found is None or int(found[1]) != page:
        raise SystemExit(f"test_arch: no kernel with pages of {page} bytes\n{said[-3000:]}")
    return {name: int(status) for name, status in _RESULT.findall(said)}
