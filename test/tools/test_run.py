# SPDX-License-Identifier: MIT
"""coffer run on programs that LD_PRELOAD does not reach: issue 16."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from coffer import loading, places

COMMAND = places.build_dir() / "bin" / "coffer"
CC = os.environ.get("CC", "cc")
SOURCE = """#include <stdio.h>
#include <stdlib.h>
int main(void) {
  const char* preload = getenv("LD_PRELOAD");
  free(malloc(100));
  puts(preload != NULL ? preload : "none");
  return 7;
}
"""


def compiled(folder: Path, *flags: str) -> Path:
    (folder / "program.c").write_text(SOURCE)
    subprocess.run([CC, str(folder / "program.c"), "-o", str(folder / "program"), *flags], check=True)
    return folder / "program"


def run(*arguments: object, status: int = 7, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def with_loader(program: Path, name: bytes) -> None:
    """The dynamic loader that the file names is another one, of a name that is not longer."""
    data = bytearray(program.read_bytes())
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 3:
            assert len(name) < length
            data[offset:offset + length] = name.ljust(length, b"\0")
    program.write_bytes(data)


def test_a_dynamic_program_says_nothing(tmp_path: Path) -> None:
    done = run("run", "--", compiled(tmp_path))
    assert "libcoffer.so" in done.stdout and done.stderr == ""


def test_the_hardened_build(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    assert run("run", "--hardened", "--", program).stdout.endswith("/libcoffer_hardened.so\n")
    assert run("run", "--", program).stdout.endswith("/libcoffer.so\n")


def test_a_program_without_a_name() -> None:
    assert run("run", "--", "", status=127).stderr == "coffer run: : No such file or directory\n"


def test_a_static_program(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-static")
    said = f"{program} is linked statically, and LD_PRELOAD has no effect on such a program: it runs without Coffer\n"
    assert run("run", "--", program).stderr == f"coffer run: {said}"
    assert "coffer stat: " in run("stat", "--", program).stderr


def test_a_static_program_that_has_coffer(tmp_path: Path) -> None:
    library = places.build_dir() / "lib" / "libcoffer.a"
    program = compiled(tmp_path, "-static", str(library), "-pthread")
    assert run("run", "--", program).stderr == ""


@pytest.mark.skipif(not shutil.which("go"), reason="go is missing")
def test_a_go_program(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main\n\nfunc main() {}\n")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", "program", "main.go"], check=True, cwd=tmp_path, env=environment)
    assert "is a static Go program, and LD_PRELOAD" in run("run", "--", tmp_path / "program", status=0).stderr


def test_a_file_that_looks_like_go(tmp_path: Path) -> None:
    """One whose loader would take Coffer: Go's own memory is not malloc's."""
    program = compiled(tmp_path)
    program.write_bytes(program.read_bytes() + b"\xff Go buildinf:")
    assert "Coffer serves only what is C in it" in run("run", "--", program).stderr


def test_a_musl_program_starts_without(tmp_path: Path) -> None:
    """The loader has musl's name and is glibc's, so that the program runs where there is no musl."""
    program = compiled(tmp_path)
    with program.open("rb") as file:
        (tmp_path / "ld-musl-any.so.1").symlink_to(loading._loader(file))
    with_loader(program, b"ld-musl-any.so.1")
    done = run("run", "--", "./program", cwd=tmp_path)
    said = "./program is linked with musl (ld-musl-any.so.1), and this Coffer with glibc: it runs without Coffer\n"
    assert done.stderr == f"coffer run: {said}"
    assert done.stdout == "none\n"
    for command in (["stat"], ["profile", "-o", "out.pb.gz"]):
        assert "cannot see into it" in run(*command, "--", "./program", status=1, cwd=tmp_path).stderr


def test_a_python_of_musl_takes_programs_of_musl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the wheels for musl."""
    program = compiled(tmp_path)
    other = Path(shutil.copy(program, tmp_path / "other"))
    with_loader(program, b"ld-musl-any.so.1")
    monkeypatch.setattr(loading.sys, "executable", str(program))
    assert loading._of_file(program, "it") is None
    found = loading._of_file(other, "it")
    assert found is not None and "linked with glibc (/lib" in found.reason and found.reason.endswith("Coffer with musl")


@pytest.mark.parametrize("line", ["#!{}", "#!/usr/bin/env -S A=1 {} -x"])
def test_a_script_is_its_interpreter(tmp_path: Path, line: str) -> None:
    program = compiled(tmp_path, "-static")
    script = tmp_path / "script"
    script.write_text(line.format(program) + "\n")
    script.chmod(0o755)
    assert f"{script}, which {program} runs, is linked statically" in run("run", "--", script).stderr


def test_a_script_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("exit 7\n")
    (tmp_path / "script").chmod(0o755)
    assert run("run", "--", tmp_path / "script").stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_program_that_gets_rights(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    assert loading.obstacle(str(program)) is None
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert "setuid, setgid or capabilities" in str(loading.obstacle(str(program)))


def test_a_program_of_another_machine(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    data = bytearray(program.read_bytes())
    struct.pack_into("<H", data, 18, 8 if platform.machine() != "mips" else 62)
    program.write_bytes(data)
    assert "is for another machine" in str(loading.obstacle(str(program)))


def test_whatever_a_file_holds(tmp_path: Path) -> None:
    """A damaged one is for whoever starts it."""
    program = compiled(tmp_path)
    data = program.read_bytes()
    for length in (0, 3, 19, 40, 63, 64, 200):
        program.write_bytes(data[:length])
        loading.obstacle(str(program))
    for at in range(16, 64):
        program.write_bytes(data[:at] + b"\xff" + data[at + 1:])
        loading.obstacle(str(program))
    program.write_bytes(b"#!" + os.fsencode(program) + b"\n")
    assert loading.obstacle(str(program)) is None and loading.obstacle("no such program") is None
