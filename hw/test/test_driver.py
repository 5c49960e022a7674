"""The C driver of hw/sw: against simulated units behind AXI4-Lite and Wishbone, and compiled for processors that have
no C library."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from replay import BUILD, FLAGS, HERE

DRIVER = HERE / "sw" / "coffer_hw.c"
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
        "sparse_memory", "axi_driver", "axi_memory", "wishbone_driver", "wishbone_memory", "bus_harness", "tb_driver"))]
    for command in (["-i", *FLAGS, *map(str, sources)], ["-m", *FLAGS, "tb_driver"]):
        done = subprocess.run(["ghdl", *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def run(simulation: Path, pipes: Path, *, hbs: bool, axi: bool, seed: int, calls: int) -> tuple[str, str, int]:
    """The program's output, its complaints with the simulation's, and how it ended."""
    program = Path(os.environ.get("COFFER_HW_COSIM", HERE.parent / "build" / "hw" / "cosim"))
    requests, answers = pipes / "requests", pipes / "answers"
    os.mkfifo(requests)
    os.mkfifo(answers)
    bench = subprocess.Popen(
        ["ghdl", "-r", *FLAGS, "tb_driver", f"-grequests_g={requests}", f"-ganswers_g={answers}",
         f"-ghbs_g={str(hbs).lower()}", f"-gaxi_g={str(axi).lower()}", "--ieee-asserts=disable"],
        cwd=simulation, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        driver = subprocess.run([program, requests, answers, str(seed), str(calls), "knuth" if hbs else "none"],
                                capture_output=True, text=True, timeout=300, check=False)
        said, _ = bench.communicate(timeout=60)
    finally:
        bench.kill()
    assert bench.returncode == 0, said
    return driver.stdout, driver.stderr + said, driver.returncode


@pytest.mark.parametrize(("hbs", "axi", "calls"), [(True, True, 250), (False, False, 150)])
def test_the_driver_agrees_with_the_model(simulation: Path, tmp_path: Path, hbs: bool, axi: bool, calls: int) -> None:
    output, complaints, code = run(simulation, tmp_path, hbs=hbs, axi=axi, seed=3, calls=calls)
    assert code == 0, complaints
    counts = re.search(r"cosim: (\d+) allocations, (\d+) refused, (\d+) wrong frees", output)
    assert counts and int(counts.group(1)) > calls // 2
    assert not hbs or int(counts.group(2)) > 0 and int(counts.group(3)) > 10, output


@pytest.mark.parametrize("architecture", [["-march=rv32i", "-misa-spec=2.2", "-mabi=ilp32"],
                                          ["-march=rv64imac", "-misa-spec=2.2", "-mabi=lp64"]])
def test_the_driver_needs_no_library(tmp_path: Path, architecture: list[str]) -> None:
    result = tmp_path / "driver.o"
    subprocess.run(["riscv64-unknown-elf-gcc", *architecture, "-mcmodel=medany", "-O2", "-ffreestanding", *WARNINGS,
                    *INCLUDES, "-c", DRIVER, "-o", result], check=True)
    names = subprocess.run(["riscv64-unknown-elf-nm", result], check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r" T coffer_hw_", names)) == 7
    # Copying the options may become a call of memcpy, which freestanding compilers may always make.
    assert set(re.findall(r" U (\w+)", names)) <= {"memcpy"}, names
