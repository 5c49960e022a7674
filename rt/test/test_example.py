# SPDX-License-Identifier: MIT
"""The bare-metal example: built for RISC-V, run on qemu's "virt" machine."""

from __future__ import annotations

from pathlib import Path

from toolbox import INCLUDE, RISCV_GCC, RT, SOURCES, run


def test_two_tasks(tmp_path: Path) -> None:
    example = RT / "example"
    program = tmp_path / "example.elf"
    run([*RISCV_GCC, "-std=c11", "-ffreestanding", "-O2", "-Wall", "-Wextra", "-Werror", "-nostdlib", INCLUDE,
         "-Wl,--no-warn-rwx-segments", "-T", example / "virt.ld", example / "main.c", example / "board.c",
         example / "switch.S", *SOURCES, "-lgcc", "-o", program])
    # icount: the machine's time follows its instructions, not the load of this one.
    output = run(["qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-nographic", "-icount", "shift=3",
                  "-kernel", program], timeout=240)
    assert output == "20000 messages passed between two tasks\n"
