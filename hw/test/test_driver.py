# SPDX-License-Identifier: MIT
"""The C driver of hw/sw: against simulated units behind AXI4-Lite and Wishbone, and compiled for processors that have
no C library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from replay import HERE

sys.path.insert(0, str(HERE / "sw"))

import simulate  # noqa: E402

DRIVER = [HERE / "sw" / f"coffer_hw{part}.c" for part in ("", "_blocks", "_tell")]
INCLUDES = [f"-I{HERE.parent / 'include'}", f"-I{HERE / 'sw'}"]
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]


def run(*, unit: str, axi: bool, seed: int, calls: int, book: bool) -> tuple[str, str, int]:
    """The program's output, its complaints with the simulation's, and how it ended."""
    program = Path(os.environ.get("COFFER_HW_COSIM", HERE.parent / "build" / "hw" / "cosim"))
    name = {"knuth": "hbs", "joins": "ohebs", "posted": "ohebs_posted"}[unit]
    done, said = simulate.run(name, "axi" if axi else "wishbone", [str(program), str(seed), str(calls), unit,
                                                                   str(int(book))], capture_output=True, text=True)
    return done.stdout, done.stderr + said, done.returncode if not said else 1


# HBS answers as coffer-rt's model does; OHEBS has a placement of its own, and joins.
@pytest.mark.parametrize(("unit", "axi", "calls", "book"), [
    ("knuth", True, 250, False), ("knuth", False, 150, True), ("joins", True, 150, True), ("joins", False, 150, False),
    ("posted", True, 100, False), ("posted", False, 100, True)])
def test_the_driver_agrees_with_the_model(unit: str, axi: bool, calls: int, book: bool) -> None:
    output, complaints, code = run(unit=unit, axi=axi, seed=3, calls=calls, book=book)
    assert code == 0, complaints
    counts = re.search(r"cosim: (\d+) allocations, (\d+) refused, (\d+) wrong frees, (\d+) resized, (\d+) moved",
                       output)
    assert counts, output
    allocations, refused, wrong, resized, moved = map(int, counts.groups())
    assert allocations > calls // 2 and resized > moved > calls // 20, output
    assert (unit != "knuth" and not book) or wrong > calls // 20, output
    assert unit != "knuth" or refused > 0, output


@pytest.mark.parametrize("architecture", [["-march=rv32i", "-misa-spec=2.2", "-mabi=ilp32"],
                                          ["-march=rv64imac", "-misa-spec=2.2", "-mabi=lp64"]])
def test_the_driver_needs_no_library(tmp_path: Path, architecture: list[str]) -> None:
    for source in DRIVER:
        subprocess.run(["riscv64-unknown-elf-gcc", *architecture, "-mcmodel=medany", "-O2", "-ffreestanding", *WARNINGS,
                        *INCLUDES, "-c", source, "-o", tmp_path / f"{source.stem}.o"], check=True)
    result = tmp_path / "driver.o"
    subprocess.run(["riscv64-unknown-elf-ld", "-m", "elf32lriscv" if "ilp32" in architecture[-1] else "elf64lriscv",
                    "-r", *tmp_path.glob("*.o"), "-o", result], check=True)
    names = subprocess.run(["riscv64-unknown-elf-nm", result], check=True, capture_output=True, text=True).stdout
    header = (HERE / "sw" / "coffer_hw.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"\b(coffer_hw_\w+)\(", header))
    assert len(declared) == 15 and declared <= set(re.findall(r" T (\w+)", names)), names
    # Copying the options may become a call of memcpy, which freestanding compilers may always make.
    assert set(re.findall(r" U (\w+)", names)) <= {"memcpy"}, names


def test_the_pages_example_compiles(tmp_path: Path) -> None:
    text = re.search(r"```c\n(.*?)```", (HERE / "doc" / "driver.md").read_text(encoding="utf-8"), re.DOTALL)
    assert text
    source = tmp_path / "example.c"
    source.write_text(text.group(1) + "\nint main(void) { return use(); }\n", encoding="utf-8")
    subprocess.run(["gcc", *WARNINGS, *INCLUDES, source, *DRIVER, "-o", tmp_path / "example"], check=True)


@pytest.mark.parametrize("words", [["--unit", "hbs"], ["--bus", "wishbone"]])
def test_the_example_runs_as_the_page_says(tmp_path: Path, words: list[str]) -> None:
    text = (HERE / "doc" / "driver.md").read_text(encoding="utf-8")
    compile_it, simulate_it = re.findall(r"^(gcc .*|python3 hw/sw/simulate.py .*)$", text, re.MULTILINE)
    program = tmp_path / "example"
    assert "-o /tmp/example" in compile_it and simulate_it.endswith("/tmp/example")
    subprocess.run(compile_it.replace("/tmp/example", str(program)), shell=True, cwd=HERE.parent, check=True)
    done = subprocess.run([sys.executable, "-B", HERE / "sw" / "simulate.py", *words, program], capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "508 of 4096 bytes live, the largest free block has 2044; kept: 21494f48\n"


def test_programs_that_do_not_play(tmp_path: Path) -> None:
    rude = tmp_path / "rude"
    rude.write_text("#!/bin/sh\necho nonsense > $1 & cat $2 > /dev/null; exit 3\n")
    rude.chmod(0o755)
    for program, message in ((rude, "tb_driver: "), (tmp_path / "none", "No such file")):
        done = subprocess.run([sys.executable, "-B", HERE / "sw" / "simulate.py", program], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
