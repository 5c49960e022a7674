# SPDX-License-Identifier: MIT
"""The most instructions that coffer_rt_alloc and coffer_rt_free can execute: counted over every path of the machine
code (rt/tools/longest_path.py) and held against the table of rt/README.md, which is of Debian 12's compilers. And calls
that qemu counts stay below."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from toolbox import RISCV_GCC, RT, link_alone, run

sys.path.insert(0, str(RT / "tools"))
import count_calls  # noqa: E402
import longest_path  # noqa: E402

# Compiler, flags, objdump, log2 of the bits of a word.
MACHINES = {
    "rv32im": (RISCV_GCC, ["-O2"], "riscv64-unknown-elf-objdump", 5),
    "rv32im_zba_zbb": ([RISCV_GCC[0], "-march=rv32im_zba_zbb", *RISCV_GCC[2:]], ["-O2"], "riscv64-unknown-elf-objdump",
                       5),
    "x86-64": (["gcc"], ["-O2", "-fno-pic", "-no-pie", "-fno-stack-protector", "-fcf-protection=none"], "objdump", 6),
}
CALLS = ["coffer_rt_alloc", "coffer_rt_free"]
HOOKED = frozenset({"alloc_hooked", "free_hooked"})
TREE = frozenset({"coffer_rt_tree_take", "coffer_rt_tree_free"})
SUMS_OF_LISTS = frozenset({"coffer_rt_lists_take_sum"})
# One region, no hooks. Per kind of heap: the definitions it is built with, the functions that are not its own.
KINDS = {
    "": ([], HOOKED | {"take_sum"}),
    ", sums": ([], HOOKED),
    ", lists": ([], HOOKED | TREE | SUMS_OF_LISTS),
    ", lists, unchecked": (["-DCOFFER_RT_UNCHECKED"], HOOKED | TREE | SUMS_OF_LISTS),
    ", lists, sums": ([], HOOKED | TREE),
}


def table() -> dict[tuple[str, int], list[int]]:
    """From the README's rows `| machine, kind | levels | ... | alloc | free |`."""
    rows = {}
    for line in (RT / "README.md").read_text(encoding="utf-8").split("\n"):
        if match := re.match(r"^\| ([\w-]+(?:, \w+)*) \| (\d) \|.*\| (\d+) \| (\d+) \|$", line):
            rows[match.group(1), int(match.group(2))] = [int(match.group(3)), int(match.group(4))]
    return rows


def names(objdump: str, program: Path) -> list[str]:
    """The instructions without their operands, marks left out."""
    rows = run([objdump, "-d", "--no-show-raw-insn", program]).split("\n")
    found = []
    is_mark = False
    for row in rows:
        if "<rt_mark_" in row and row.endswith(">:"):
            is_mark = True
        elif match := re.match(r"^\s+[0-9a-f]+:\s+(\S+)", row):
            if not (is_mark and match.group(1) == "nop"):
                found.append(match.group(1))
            is_mark = False
    # What only aligns; and an addition of 0, of an address that happens to end so, is shown as a move.
    return ["add" if name in {"mv", "li"} else name for name in found
            if name not in {"nop", "nopw", "nopl", "cs", "data16", "xchg"}]


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    compiler, flags, objdump, log2 = MACHINES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    link_alone(compiler, flags, 1, folder / "shipped")
    for defined in ([], ["-DCOFFER_RT_UNCHECKED"]):
        link_alone(compiler, [*flags, *defined], 2, folder / f"marked{len(defined)}")
    return request.param, folder, objdump, log2, run([compiler[0], "-dumpfullversion"])


def test_marks_change_no_code(machine: tuple) -> None:
    _, folder, objdump, _, _ = machine
    assert names(objdump, folder / "marked0") == names(objdump, folder / "shipped")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", [2, 3, 4])
def test_no_path_is_longer_than_the_table_says(machine: tuple, levels: int, kind: str) -> None:
    name, folder, objdump, log2, version = machine
    if not version.startswith("12."):
        pytest.skip("the table is of GCC 12")
    defined, left_out = KINDS[kind]
    program = longest_path.Program(objdump, str(folder / f"marked{len(defined)}"))

    def limits(target: int) -> longest_path.Limits:
        bounds_of = longest_path.bounds_of_lists if "lists" in kind else longest_path.bounds
        return bounds_of(levels, log2, target, has_sums="sums" in kind)

    counted = [max(program.longest(call, limits(target), left_out) for target in range(levels)) for call in CALLS]
    assert counted == table()[name + kind, levels]


def test_hooks_add_what_the_text_says(machine: tuple) -> None:
    name, folder, objdump, log2, version = machine
    if name != "rv32im" or not version.startswith("12."):
        pytest.skip("the text is of rv32im and GCC 12")
    program = longest_path.Program(objdump, str(folder / "marked0"))
    told = re.search(r"Lock hooks add (\d+) to an allocation and (\d+) to a free of a tree on rv32im, at most (\d+) "
                     r"and (\d+) with lists", (RT / "README.md").read_text(encoding="utf-8"))
    assert told
    # What a policy does is called through a pointer.
    inner = [next(function for function in program.code if function.partition("@")[0] == call and
                  any(block.mark == mark for block in program.function(function).values()))
             for call, mark in (("alloc", "near"), ("give_back", "filled"))]
    counted = []
    for kind, bounds_of in (("", longest_path.bounds), (", lists", longest_path.bounds_of_lists)):
        without = SUMS_OF_LISTS | (TREE if kind else {"take_sum"})
        for i, (call, hooked) in enumerate(zip(CALLS, ("alloc_hooked", "free_hooked"))):
            limits = [bounds_of(3, log2, target) for target in range(3)]
            most = max(program.longest(call, limit, without, through=hooked) for limit in limits)
            most += max(program.longest(inner[i], limit, without) for limit in limits) if kind else 0
            counted.append(most - table()[name + kind, 3][i])
    assert counted == [int(number) for number in told.groups()]


def limits_of_realloc(levels: int, log2: int, old: int, new: int) -> longest_path.Limits:
    """Of a block of level `old` that is to be one of level `new`: it is found three times; freed for the look and made
    live again; the new one is taken; the old one is freed."""
    freed, taken = longest_path.bounds(levels, log2, old), longest_path.bounds(levels, log2, new)
    marks = {**freed.marks, "regions": 3, "blame": 0, "climb": 3 * freed.marks["climb"],
             "descend": taken.marks["descend"]}
    for mark in ("own", "lower_levels", "lower", "whole"):
        marks[mark] += taken.marks[mark]
    for mark in ("raise_levels", "raise", "joined"):
        marks[mark] *= 2
    return longest_path.Limits(marks, {"whole": min(freed.costs["whole"], taken.costs["whole"]), **{
        "joined": freed.costs["joined"]}})


def test_the_other_calls_are_no_longer_than_the_text_says(machine: tuple) -> None:
    name, folder, objdump, log2, version = machine
    if name != "rv32im" or not version.startswith("12."):
        pytest.skip("the text is of rv32im and GCC 12")
    program = longest_path.Program(objdump, str(folder / "marked0"))
    readme = (RT / "README.md").read_text(encoding="utf-8")
    left_out = SUMS_OF_LISTS | {"take_sum"}
    for call in ("alloc_aligned", "usable_size", "largest_free"):
        told = re.search(rf"^\| `coffer_rt_{call}` \| (\d+) \| (\d+) \| (\d+) \|$", readme, re.MULTILINE)
        assert told
        for levels in (2, 3, 4):
            counted = max(program.longest(f"coffer_rt_{call}", longest_path.bounds(levels, log2, target), left_out)
                          for target in range(levels))
            assert counted == int(told.group(levels - 1))
    # With lists: what is called through a pointer, and the rest.
    told = re.search(r"with lists the first two take less, the third at most (\d+), (\d+) and (\d+)", readme)
    assert told
    for levels in (2, 3, 4):
        limits = longest_path.bounds_of_lists(levels, log2, 0)
        limits.marks["down"] = log2 * (levels - 1)
        counted = (program.longest("coffer_rt_largest_free", limits, frozenset({"coffer_rt_tree_largest_free"})) +
                   program.longest("largest_free", limits))
        assert counted == int(told.group(levels - 1))
    # It takes too long to count more levels.
    told = re.search(r"`coffer_rt_realloc` .*two levels: (\d+)", readme)
    assert told
    left_out |= {"blame", "report"}
    counted = max(program.longest("coffer_rt_realloc", limits_of_realloc(2, log2, old, new), left_out)
                  for old in range(2) for new in range(2))
    assert counted == int(told.group(1)) <= 2 * (sum(table()[name, 2]) + 47 + 61)


def test_foreign_frees_are_no_longer_than_the_table_says(machine: tuple) -> None:
    name, folder, objdump, log2, version = machine
    if not version.startswith("12."):
        pytest.skip("the table is of GCC 12")
    program = longest_path.Program(objdump, str(folder / "marked0"))
    told = re.findall(rf"^\| {name}, foreign \| (\d) \| (\d+) \|$", (RT / "README.md").read_text(encoding="utf-8"),
                      re.MULTILINE)
    assert len(told) == 2
    for regions, most in told:
        limits = longest_path.bounds(2, log2, 0)
        limits.marks["regions"] = int(regions)
        counted = program.longest("coffer_rt_free", limits, frozenset({"coffer_rt_tree_free"}), through="free_hooked")
        assert counted == int(most)
        # Several files have a function give_back: that of the regions is on the path.
        entered = {function for function, _, _ in program.path()}
        assert any(function.partition("@")[0] == "give_back" for function in entered)
        assert "coffer_rt_lists_blame" not in entered


def test_counted_calls_stay_below(capsys: pytest.CaptureFixture) -> None:
    # 256 KiB in blocks of 16 bytes: three levels.
    kinds = [kind for kind in KINDS if "unchecked" not in kind]
    measured = count_calls.measure(operations=150, seed=3, policies=[f"coffer-rt{kind}" for kind in kinds])
    for kind in kinds:
        policy = f"coffer-rt{kind}"
        alloc, free = table()[f"rv32im{kind}", 3]
        assert len(measured[policy]["alloc"]) > 80
        assert 50 < max(measured[policy]["alloc"]) <= alloc
        assert 30 < max(measured[policy]["free"]) <= free
