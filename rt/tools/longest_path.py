#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The most instructions a call can execute: longest_path.py --objdump OBJDUMP --levels N --radix-log2 N ELF FUNCTION...

Not a sample: every path through the machine code is considered, with all calls put in place, that passes no mark more
often than its bound allows, by dynamic programming over (instruction block, how often each mark has been passed). The
ELF file is compiled with COFFER_RT_MARKS=2: RT_LOOP(name) in the source is a no-op with the label rt_mark_name_N, which
counts as no instruction. `bounds` has the totals for a call, docs/design/rt.md proves them, and rt/test/exhaustive.c
counts that they hold. Every loop must pass a mark. A call through a pointer costs its one instruction: lock hooks and
error handlers are the user's.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from typing import NamedTuple


class Limits(NamedTuple):
    """How often each mark may be passed in one call, and what passing one takes off the share of others."""

    marks: dict[str, int]
    costs: dict[str, tuple[tuple[str, int], ...]]


OF_TREE = ("descend", "climb", "own", "lower_levels", "lower", "whole", "raise_levels", "raise", "joined")
OF_LISTS = ("scale", "empty", "near", "exact", "listed", "cut", "split", "rise", "filled",
            "relisted")


def bounds(levels: int, radix_log2: int, target: int, *, has_sums: bool = False) -> Limits:
    """Of a call about a block of level `target`; docs/design/rt.md, "Loop bounds"."""
    top = levels - 1
    above = top - target
    orders = radix_log2 * (target + 1)
    return Limits({
        **dict.fromkeys(OF_LISTS, 0),
        "regions": 1,
        "descend": above,
        "climb": target,
        "blame": top,
        "own": radix_log2 * target,
        "lower_levels": above,
        "lower": above * orders,
        "whole": above,
        "raise_levels": above,
        "raise": above * (orders if has_sums else orders - 1),
        "joined": above,
    }, {} if has_sums else {
        "whole": (("lower", orders - 1),),
        "joined": (("raise", orders - 1),),
    })


def bounds_of_lists(levels: int, radix_log2: int, target: int, *, has_sums: bool = False) -> Limits:
    """As bounds, with COFFER_RT_LISTS. (A request whose block will be a part of a cell is one for that cell.)"""
    top = levels - 1
    above = top - target
    between = max(above - 1, 0)
    empty = above * radix_log2
    near = min(radix_log2 - 1, empty)  # heads between the first and the last of a level
    return Limits({
        **dict.fromkeys(OF_TREE, 0),
        "regions": 1,
        "blame": above,
        "scale": target,
        "empty": empty,
        "near": min(above, 1),
        "exact": 1,
        "listed": min(between, 1),
        "cut": between,
        "split": min(target, 1) if has_sums else 0,
        "rise": target,
        "filled": above,
        "relisted": 1,
    }, {
        "near": (("empty", empty - near),),
        "exact": (("empty", near),),
        "listed": (("empty", 1), ("cut", 1)),
        "relisted": (("filled", 1),),
    })


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str


class Block(NamedTuple):
    cost: int  # instructions
    mark: str  # passed at the block's start, or ""
    calls: str  # the function that the block ends by calling, or ""
    successors: tuple[int, ...]  # within the function; empty: returns


_LABEL = re.compile(r"^([0-9a-f]+) <([\w.]+)>:$")
_MARK = re.compile(r"^rt_mark_(\w+?)_\d+$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+([a-z][\w.]*)(?:\s+(.*))?$")
_TARGET = re.compile(r"(?:^|[\s,])(?:0x)?([0-9a-f]+) <([\w.]+?)(?:\+0x[0-9a-f]+)?>")
_CONDITIONAL = re.compile(r"^(j(?!mp|alr?\b|r?\b)\w+|b(eq|ne|lt|ge|gt|le)\w*)$")


class Program:
    """The functions of an ELF file."""

    def __init__(self, objdump: str, elf: str, *, needs_marks: bool = True) -> None:
        text = subprocess.run([objdump, "-d", "--no-show-raw-insn", elf], check=True, capture_output=True,
                              text=True).stdout
        self.code: dict[str, list[Instruction]] = {}
        self.marks: dict[int, str] = {}
        current: list[Instruction] = []
        for line in text.split("\n"):
            if label := _LABEL.match(line):
                if mark := _MARK.match(label.group(2)):
                    self.marks[int(label.group(1), 16)] = mark.group(1)
                else:
                    # Static functions of several files may have one name: those after the first get their address too.
                    name, address = label.group(2), label.group(1).lstrip("0")
                    current = self.code.setdefault(f"{name}@{address}" if name in self.code else name, [])
            elif match := _INSTRUCTION.match(line):
                name, operands = match.group(2), match.group(3) or ""
                while name in {"notrack", "bnd", "repz", "rep"}:
                    name, _, operands = operands.partition(" ")
                current.append(Instruction(int(match.group(1), 16), name, operands.strip()))
        if not self.marks and needs_marks:
            sys.exit("longest_path: there are no marks; compile with COFFER_RT_MARKS=2")
        self.home = {item.address: name for name, code in self.code.items() for item in code}
        self.blocks: dict[str, dict[int, Block]] = {}

    def ending(self, function: str, item: Instruction, following: int | None) -> tuple[str, tuple] | None:
        """(function called, successors) of an instruction that ends a block, None of another."""
        match = _TARGET.search(item.operands)
        target = int(match.group(1), 16) if match else None
        there = self.home.get(target) if target is not None else None
        after = () if following is None else (following,)
        if item.name in {"ret", "retq"} or (item.name == "jr" and item.operands == "ra"):
            return "", ()
        if item.name in {"call", "callq", "jal", "jalr"}:
            return there or "", after
        if item.name in {"jmp", "jmpq", "j", "jr"}:
            if match and there == function:
                return "", (target,)
            return there or "", ()  # a tail call
        if _CONDITIONAL.match(item.name):
            if there != function:
                sys.exit(f"longest_path: {function}: {item.name} {item.operands} leads out of the function")
            return "", (target, *after)
        return None

    def function(self, name: str) -> dict[int, Block]:
        if name not in self.blocks:
            self.blocks[name] = self.split(name)
            self.check_loops(name)
        return self.blocks[name]

    def split(self, name: str) -> dict[int, Block]:
        code = self.code[name]
        following = {item.address: next_item.address for item, next_item in zip(code, code[1:])}
        endings = {item.address: self.ending(name, item, following.get(item.address)) for item in code}
        leaders = {code[0].address} | {item.address for item in code if item.address in self.marks}
        for address, ending in endings.items():
            if ending:
                leaders.update(ending[1])
                leaders.update({following[address]} if address in following else ())
        blocks = {}
        first, cost = code[0].address, 0
        for item in code:
            if item.address in self.marks:
                assert item.name == "nop", "a mark without its no-op"
            else:
                cost += 1
            after = following.get(item.address)
            if after is None or after in leaders:
                calls, successors = endings[item.address] or ("", () if after is None else (after,))
                blocks[first] = Block(cost, self.marks.get(first, ""), calls, successors)
                first, cost = after, 0
        return blocks

    def check_loops(self, name: str) -> None:
        """Without the marked blocks no circle may be left."""
        blocks = self.blocks[name]
        state: dict[int, int] = {}
        for start in blocks:
            stack = [(start, iter(blocks[start].successors))] if not blocks[start].mark and start not in state else []
            if stack:
                state[start] = 1
            while stack:
                step = next(stack[-1][1], None)
                if step is None:
                    state[stack.pop()[0]] = 2
                elif blocks[step].mark or state.get(step) == 2:
                    continue
                elif state.get(step) == 1:
                    sys.exit(f"longest_path: {name}: the loop at {step:#x} passes no mark")
                else:
                    state[step] = 1
                    stack.append((step, iter(blocks[step].successors)))

    def longest(self, name: str, limits: Limits, without: frozenset[str] = frozenset(), through: str = "") -> int:
        """The longest path from the call's first instruction to its return that enters no function of `without`. If
        `through` is given, of the paths that enter it only."""
        names = sorted(("", *limits.marks))  # "": whether `through` has been entered
        position = {mark: i for i, mark in enumerate(names)}

        def passed(counts: tuple, mark: str) -> tuple | None:
            now = list(counts)
            for other, amount in ((mark, 1), *limits.costs.get(mark, ())):
                now[position[other]] += amount
                if now[position[other]] > limits.marks[other]:
                    return None
            return tuple(now)

        def steps(state: tuple) -> list[tuple] | None:
            """What may follow a state; None if the state itself may not be."""
            context, address, counts = state
            block = self.function(context[-1][0])[address]
            if block.mark:
                counts = passed(counts, block.mark)
            if counts is None or block.calls.partition("@")[0] in without:
                return None
            if block.calls:
                if block.calls == through:
                    counts = (1, *counts[1:])
                resume = block.successors[0] if block.successors else None
                inner = (*context[:-1], (context[-1][0], resume), (block.calls, None))
                return [(inner, self.code[block.calls][0].address, counts)]
            if block.successors:
                return [(context, step, counts) for step in block.successors]
            outer = context[:-1]
            while outer and outer[-1][1] is None:  # through tail calls
                outer = outer[:-1]
            if through and not outer and counts[0] == 0:
                return None
            return [((*outer[:-1], (outer[-1][0], None)), outer[-1][1], counts)] if outer else []

        impossible = -10**9
        root = (((name, None),), self.code[name][0].address, tuple(0 for _ in names))
        memo: dict[tuple, int] = {}
        follow: dict[tuple, list[tuple] | None] = {}
        stack = [root]
        while stack:
            state = stack[-1]
            if state not in follow:
                follow[state] = steps(state)
                stack.extend(after for after in follow[state] or [] if after not in memo)
                continue
            stack.pop()
            if state not in memo:
                after = follow[state]
                cost = self.function(state[0][-1][0])[state[1]].cost
                best = impossible if after is None else max((memo[item] for item in after), default=0)
                memo[state] = best if best <= impossible // 2 else cost + best
        self.last = (memo, follow, root)
        return memo[root]

    def path(self) -> list[tuple[str, int, int]]:
        """The blocks of the path that `longest` found last: function, address, instructions."""
        memo, follow, state = self.last
        found = []
        while True:
            name = state[0][-1][0]
            found.append((name, state[1], self.function(name)[state[1]].cost))
            if not follow[state]:
                return found
            state = max(follow[state], key=lambda item: memo[item])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--levels", type=int, required=True, help="of the tree")
    parser.add_argument("--radix-log2", type=int, required=True, help="5 with 32 bits, 6 with 64")
    parser.add_argument("--without", action="append", default=[], metavar="FUNCTION",
                        help="leave out paths that call it")
    parser.add_argument("--sums", action="store_true", help="of a heap whose blocks are sums of powers of two")
    parser.add_argument("--lists", action="store_true", help="of a heap with lists")
    parser.add_argument("--path", action="store_true", help="show the longest path's blocks")
    parser.add_argument("elf")
    parser.add_argument("function", nargs="+")
    arguments = parser.parse_args()
    program = Program(arguments.objdump, arguments.elf)
    for function in arguments.function:
        counts = []
        for target in range(arguments.levels):
            bounds_of = bounds_of_lists if arguments.lists else bounds
            limits = bounds_of(arguments.levels, arguments.radix_log2, target, has_sums=arguments.sums)
            counts.append(program.longest(function, limits, frozenset(arguments.without)))
            for name, address, cost in program.path() if arguments.path else []:
                print(f"  level {target}: {name} {address:#x} {cost}")
        print(f"{function}: {max(counts)}; for blocks of each level: {', '.join(map(str, counts))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
