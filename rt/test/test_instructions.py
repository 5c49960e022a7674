"""The most instructions that coffer_rt_alloc and coffer_rt_free can execute: counted over every path of the machine code
(rt/tools/longest_path.py) and held against the figures of rt/README.md, which are for Debian 12's compilers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolbox import RISCV_GCC, RT, link_alone, run

sys.path.insert(0, str(RT / "tools"))
import longest_path  # noqa: E402

# Compiler, flags, objdump, log2 of the bits of a word.
MACHINES = {
    "rv32im": (RISCV_GCC, ["-O2"], "riscv64-unknown-elf-objdump", 5),
    "x86-64": (["gcc"], ["-O2", "-fno-pic", "-no-pie", "-fno-stack-protector", "-fcf-protection=none"], "objdump", 6),
}
CALLS = ["coffer_rt_alloc", "coffer_rt_free"]


def table() -> dict[tuple[str, int], list[int]]:
    """From the README's rows `| rv32im | levels | ... | alloc | free |`."""
    rows = {}
    for line in (RT / "README.md").read_text(encoding="utf-8").split("\n"):
        if match := re.match(r"^\| (rv32im|x86-64) \| (\d) \|.*\| (\d+) \| (\d+) \|$", line):
            rows[match.group(1), int(match.group(2))] = [int(match.group(3)), int(match.group(4))]
    return rows


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    compiler, flags, objdump, log2 = MACHINES[request.param]
    program = tmp_path_factory.mktemp(request.param) / "rt.elf"
    link_alone(compiler, flags, program)
    return request.param, longest_path.Program(objdump, str(program)), log2, compiler[0]


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_no_path_is_longer_than_the_table_says(machine: tuple, levels: int) -> None:
    name, program, log2, compiler = machine
    if "12." not in run([compiler, "-dumpfullversion"]):
        pytest.skip("the table is of GCC 12")
    wanted = table()[name, levels]
    counted = [max(program.longest(call, longest_path.bounds(levels, log2, target)) for target in range(levels))
               for call in CALLS]
    assert counted == wanted


def test_the_bounds_are_met(tmp_path: Path) -> None:
    """A count by single-stepping in qemu cannot be higher than the longest path."""
    source = tmp_path / "steps.c"
    source.write_text(STEPS, encoding="utf-8")
    program = tmp_path / "steps"
    test = RT / "test"
    run([*RISCV_GCC, "-std=c11", "-ffreestanding", "-O2", "-DRT_NO_LIBC", "-nostdlib", "-static",
         f"-I{RT.parent / 'include'}", f"-I{test}", source, test / "start.c", *sorted((RT / "src").glob("*.c")), "-lgcc",
         "-o", program])
    log = tmp_path / "log"
    subprocess.run(["qemu-riscv32", "-singlestep", "-d", "exec,nochain", "-D", str(log), str(program)], check=True,
                   capture_output=True, timeout=300)
    starts = {int(line.split()[0], 16): line.split()[2] for line in
              run(["riscv64-unknown-elf-nm", program]).splitlines() if line.split()[1] in "tT"}
    ends = {"rt_probe_begin", "rt_probe_end"}
    marks = {address: name for address, name in starts.items() if name in ends}
    longest, running = 0, None
    for line in log.read_text().splitlines():
        match = re.search(r"\[[0-9a-f]+/([0-9a-f]+)/", line)
        if not match:
            continue
        mark = marks.get(int(match.group(1), 16))
        if mark == "rt_probe_begin":
            running = 0
        elif mark == "rt_probe_end" and running is not None:
            longest, running = max(longest, running), None
        elif running is not None:
            running += 1
    rows = table()
    # Within the probes: the call, and the few instructions around it.
    assert 0 < longest <= rows["rv32im", 3][0] + 12


STEPS = """
#include "coffer/coffer_rt.h"
#include "check.h"
static unsigned char region[300000] __attribute__((aligned(64)));
__attribute__((noinline)) void rt_probe_begin(void) { __asm__ volatile(""); }
__attribute__((noinline)) void rt_probe_end(void) { __asm__ volatile(""); }
int main(void) {
  static void* live[300];
  struct coffer_rt* heap = coffer_rt_init(region, sizeof(region), 0);
  uint64_t state = 5;
  for (unsigned i = 0; i < 1500U; ++i) {
    const size_t at = rt_random(&state) % 300U;
    const size_t size = rt_random(&state) % ((size_t)16U << (rt_random(&state) % 12U));
    if (live[at] == 0) {
      rt_probe_begin();
      live[at] = coffer_rt_alloc(heap, size);
      rt_probe_end();
    } else {
      rt_probe_begin();
      (void)coffer_rt_free(heap, live[at]);
      rt_probe_end();
      live[at] = 0;
    }
  }
  return 0;
}
"""
