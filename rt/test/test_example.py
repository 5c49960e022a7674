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
    output = run(["qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-nographic", "-kernel", program],
                 timeout=120)
    assert output == "20000 messages passed between two tasks\n"
