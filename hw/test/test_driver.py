"""The C driver of hw/sw: against simulated units behind AXI4-Lite and Wishbone, and compiled for processors that have
no C library."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from replay import BUILD, FLAGS, HERE

DRIVER = [HERE / "sw" / f"coffer_hw{part}.c" for part in ("", "_blocks", "_tell")]
INCLUDES = [f"-I{HERE.parent / 'include'}", f"-I{HERE / 'sw'}"]
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]


@pytest.fixture(scope="session")
def simulation() -> Path:
    """The folder with the compiled bench."""
    folder = BUILD.parent / "driver"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.cf"):
        old.unlink()
    sources = [*sorted((HERE / "rtl").glob("*.vhd")), *(HERE / "tb" / f"{name}.vhd" for name in (
        "sparse_memory", "window_memory", "axi_driver", "axi_memory", "wishbone_driver", "wishbone_memory",
        "bus_harness", "tb_driver"))]
    for command in (["-i", *FLAGS, *map(str, sources)], ["-m", *FLAGS, "tb_driver"]):
        done = subprocess.run(["ghdl", *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def run(simulation: Path, pipes: Path, *, unit: str, axi: bool, seed: int, calls: int,
        book: bool) -> tuple[str, str, int]:
    """The program's output, its complaints with the simulation's, and how it ended."""
    program = Path(os.environ.get("COFFER_HW_COSIM", HERE.parent / "build" / "hw" / "cosim"))
    requests, answers = pipes / "requests", pipes / "answers"
    os.mkfifo(requests)
    os.mkfifo(answers)
    generics = {"hbs": unit == "knuth", "posted": unit == "posted", "axi": axi}
    bench = subprocess.Popen(
        ["ghdl", "-r", *FLAGS, "tb_driver", f"-grequests_g={requests}", f"-ganswers_g={answers}",
         *(f"-g{name}_g={str(value).lower()}" for name, value in generics.items()), "--ieee-asserts=disable"],
        cwd=simulation, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        driver = subprocess.run([program, requests, answers, str(seed), str(calls), unit, str(int(book))],
                                capture_output=True, text=True, timeout=300, check=False)
        said, _ = bench.communicate(timeout=60)
    finally:
        bench.kill()
    assert bench.returncode == 0, driver.stderr + said
    return driver.stdout, driver.stderr + said, driver.returncode


# HBS answers as coffer-rt's model does; OHEBS has a placement of its own, and joins.
@pytest.mark.parametrize(("unit", "axi", "calls", "book"), [
    ("knuth", True, 250, False), ("knuth", False, 150, True), ("joins", True, 150, True), ("joins", False, 150, False),
    ("posted", True, 100, False), ("posted", False, 100, True)])
def test_the_driver_agrees_with_the_model(simulation: Path, tmp_path: Path, unit: str, axi: bool, calls: int,
                                          book: bool) -> None:
    output, complaints, code = run(simulation, tmp_path, unit=unit, axi=axi, seed=3, calls=calls, book=book)
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
