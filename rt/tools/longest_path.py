#!/usr/bin/env python3
"""The most instructions a call can execute: longest_path.py --objdump OBJDUMP --levels N --radix-log2 N ELF FUNCTION...

Not a sample: the control-flow graph of the machine code, with all calls put in place, is explored for every path that
the loop bounds allow, by dynamic programming over (instruction block, how often each loop has run). A loop's bound is a
total for the whole call; the source names each loop by RT_LOOP(name), `bounds` below has the totals, and
docs/design/rt.md proves them. Lock hooks and error handlers are not counted, as they are the user's: a call through a
pointer costs its one instruction.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parent.parent / "src"


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str
    lines: frozenset[str]  # "file:line" that it was compiled from


class Block(NamedTuple):
    first: int
    length: int
    calls: str  # the function that the block ends by calling, or ""
    successors: tuple[int, ...]  # within the function; empty: returns
    lines: frozenset[str]
    ends_in_jump: bool  # without a condition


def bounds(levels: int, radix_log2: int, target: int) -> dict[str, int]:
    """How often each loop may run in one call about a block of level `target`; docs/design/rt.md, "Loop bounds"."""
    top = levels - 1
    return {
        "regions": 1,
        "descend": top - target,
        "climb": target,
        "blame": top,
        "own": radix_log2 * target,
        "lower_levels": top - target,
        "lower": (top - target) * radix_log2 * (target + 1),
        "raise_levels": top - target,
        "raise": (top - target) * radix_log2 * (target + 1),
    }


def counted_lines() -> dict[str, str]:
    """Which source line belongs to which loop."""
    found = {}
    for path in sorted(SOURCES.glob("*.[ch]")):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            match = re.search(r"^\s+RT_LOOP\((\w+)\);", line)
            if match:  # it compiles to nothing: the lines around it, in the loop, are what it names
                found[f"{path.name}:{number - 1}"] = found[f"{path.name}:{number + 1}"] = match.group(1)
    return found


_FUNCTION = re.compile(r"^([0-9a-f]+) <([\w.]+)>:$")
_LINE = re.compile(r"^(\S*?)([\w.]+\.[ch]):(\d+)(?: \(discriminator \d+\))?$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(?:[0-9a-f]{2,8} ?)+\s*\t?([a-z][\w.]*)(?:\s+(.*))?$")


def read_code(objdump: str, elf: str) -> dict[str, list[Instruction]]:
    text = subprocess.run([objdump, "-d", "-l", "--inlines", elf], check=True, capture_output=True, text=True).stdout
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    lines: frozenset[str] = frozenset()
    fresh = True
    for row in text.split("\n"):
        row = re.sub(r"^inlined by ", "", row.strip()) if row.startswith("inlined by ") else row
        if match := _FUNCTION.match(row):
            current = functions.setdefault(match.group(2), [])
            lines, fresh = frozenset(), True
        elif match := re.match(r"^(?:\S*/)?([\w.]+\.[ch]):(\d+)", row.strip()):
            here = f"{match.group(1)}:{match.group(2)}"
            lines = frozenset({here}) if fresh else lines | {here}
            fresh = False
        elif match := _INSTRUCTION.match(row):
            name, operands = match.group(2), (match.group(3) or "").strip()
            if name in {"notrack", "bnd", "repz", "rep"}:
                name, _, operands = operands.partition(" ")
            current.append(Instruction(int(match.group(1), 16), name, operands.strip(), lines))
            fresh = True
    return functions


_CONDITIONAL = re.compile(r"^(j(?!mp)\w+|b(eq|ne|lt|ge|gt|le)\w*)$")


def target_of(operands: str) -> tuple[int, str] | None:
    match = re.search(r"([0-9a-f]+) <([\w.]+)(?:\+0x[0-9a-f]+)?>", operands)
    return (int(match.group(1), 16), match.group(2)) if match else None


class Function:
    """A function's blocks and loops."""

    def __init__(self, name: str, code: list[Instruction], starts: dict[int, str], counted: dict[str, str]) -> None:
        self.name = name
        self.entry = code[0].address
        self.blocks = self.split(name, code, starts)
        self.find_loops(counted)

    @staticmethod
    def split(name: str, code: list[Instruction], starts: dict[int, str]) -> dict[int, Block]:
        index = {instruction.address: i for i, instruction in enumerate(code)}
        leaders, ends = {code[0].address}, {}
        for i, instruction in enumerate(code):
            following = code[i + 1].address if i + 1 < len(code) else None
            target = target_of(instruction.operands)
            here = instruction.name
            if here in {"ret", "retq"} or (here in {"jr", "c.jr"} and instruction.operands == "ra"):
                ends[i] = ("", (), True)
            elif here in {"call", "callq", "jal", "jalr"}:
                ends[i] = (target[1] if target else "", (following,), False)
            elif here in {"jmp", "jmpq", "j", "jr"}:
                if target is None:
                    ends[i] = ("", (), True)  # a tail call through a pointer
                elif target[0] in index:
                    ends[i] = ("", (target[0],), True)
                else:
                    ends[i] = (target[1], (), True)  # a tail call
            elif _CONDITIONAL.match(here):
                if target is None:
                    sys.exit(f"longest_path: {name}: {here} {instruction.operands}: where to?")
                if target[0] in index:
                    ends[i] = ("", (target[0], following), False)
                else:
                    sys.exit(f"longest_path: {name}: a conditional tail call is not understood")
            if i in ends:
                leaders.update(address for address in ends[i][1] if address is not None)
                if following is not None:
                    leaders.add(following)
        blocks = {}
        first = 0
        for i, instruction in enumerate(code):
            last = i + 1 == len(code) or code[i + 1].address in leaders
            if not last:
                continue
            calls, successors, jump = ends.get(i, ("", (code[i + 1].address,) if i + 1 < len(code) else (), False))
            lines = frozenset().union(*(item.lines for item in code[first:i + 1]))
            blocks[code[first].address] = Block(code[first].address, i + 1 - first, calls,
                                                tuple(s for s in successors if s is not None), lines, jump)
            first = i + 1
        return blocks

    def find_loops(self, counted: dict[str, str]) -> None:
        """Natural loops by back edges of a depth-first walk; every one must be counted and have one way in."""
        order: list[int] = []
        state: dict[int, int] = {}
        back: dict[int, set[int]] = {}
        stack = [(self.entry, iter(self.blocks[self.entry].successors))]
        state[self.entry] = 1
        while stack:
            node, rest = stack[-1]
            step = next(rest, None)
            if step is None:
                state[node] = 2
                order.append(node)
                stack.pop()
            elif state.get(step, 0) == 0:
                state[step] = 1
                stack.append((step, iter(self.blocks[step].successors)))
            elif state[step] == 1:
                back.setdefault(step, set()).add(node)
        predecessors: dict[int, set[int]] = {}
        for node in state:
            for step in self.blocks[node].successors:
                predecessors.setdefault(step, set()).add(node)
        self.loop_of_header: dict[int, tuple[str, bool, frozenset[int]]] = {}
        bodies = {}
        for header, latches in back.items():
            body, work = {header}, list(latches)
            while work:
                node = work.pop()
                if node not in body:
                    body.add(node)
                    work.extend(predecessors.get(node, ()))
            bodies[header] = body
        for header, body in bodies.items():
            for node in body - {header}:
                if predecessors[node] - body:
                    sys.exit(f"longest_path: {self.name}: a loop with two ways in at {node:#x}")
            inner = set().union(*(other for head, other in bodies.items() if head != header and other < body), set())
            names = {counted[line] for node in body - inner for line in self.blocks[node].lines if line in counted}
            if len(names) > 1:  # lines of what follows the loop, moved into it
                names = {counted[line] for node in back[header] | {header} for line in self.blocks[node].lines
                         if line in counted and node not in inner}
            if len(names) != 1:
                lines = sorted(set().union(*(self.blocks[node].lines for node in body)))
                sys.exit(f"longest_path: {self.name}: loop at {header:#x} has bounds {names}: {lines}")
            leaves_at_head = any(step not in body for step in self.blocks[header].successors)
            jumps_back = all(self.blocks[latch].ends_in_jump for latch in back[header])
            self.loop_of_header[header] = (names.pop(), leaves_at_head and jumps_back, frozenset(body))


class Program:
    def __init__(self, objdump: str, elf: str) -> None:
        counted = counted_lines()
        if not counted:
            sys.exit("longest_path: no loop is marked")
        code = read_code(objdump, elf)
        starts = {items[0].address: name for name, items in code.items() if items}
        self.code, self.starts, self.counted = code, starts, counted
        self.functions: dict[str, Function] = {}

    def function(self, name: str) -> Function:
        if name not in self.functions:
            self.functions[name] = Function(name, self.code[name], self.starts, self.counted)
        return self.functions[name]

    def longest(self, name: str, limits: dict[str, int]) -> int:
        """The longest path from the call's first instruction to its return."""
        names = sorted(limits)
        start = tuple(0 for _ in names)
        position = {loop: i for i, loop in enumerate(names)}
        memo: dict[tuple, int] = {}

        def steps(context: tuple, address: int, counts: tuple) -> tuple[int, list[tuple]]:
            """A block's own cost, and the states after it."""
            function = self.function(context[-1][0])
            block = function.blocks[address]
            loop = function.loop_of_header.get(address)
            if loop and not loop[1]:
                counts = count(counts, loop[0])
                if counts is None:
                    return -1, []
            if block.calls and block.calls in self.code:
                callee = self.function(block.calls)
                back = context[:-1] + ((context[-1][0], block.successors[0] if block.successors else None),)
                return block.length, [(back + ((block.calls, None),), callee.entry, counts)]
            if not block.successors:
                outer = context[:-1]
                while outer and outer[-1][1] is None:  # through tail calls
                    outer = outer[:-1]
                if not outer:
                    return block.length, []
                resumed = outer[:-1] + ((outer[-1][0], None),)
                return block.length, [(resumed, outer[-1][1], counts)]
            after = []
            for step in block.successors:
                now = counts
                if loop and loop[1] and step in loop[2]:
                    now = count(counts, loop[0])
                if now is not None:
                    after.append((context, step, now))
            return block.length, after

        def count(counts: tuple, loop: str) -> tuple | None:
            i = position[loop]
            if counts[i] >= limits[loop]:
                return None
            return counts[:i] + (counts[i] + 1,) + counts[i + 1:]

        root = (((name, None),), self.function(name).entry, start)
        stack = [root]
        pending: dict[tuple, tuple[int, list[tuple]]] = {}
        while stack:
            state = stack[-1]
            if state in memo:
                stack.pop()
                continue
            if state not in pending:
                pending[state] = steps(*state)
                if pending[state][0] >= 0:
                    stack.extend(after for after in pending[state][1] if after not in memo)
                    continue
            cost, after = pending[state]
            if cost < 0 or (not after and self.is_cut(state)):
                memo[state] = -10**9  # a path that the bounds do not allow
            else:
                memo[state] = cost + max((memo[item] for item in after), default=0)
            stack.pop()
        return memo[root]

    def is_cut(self, state: tuple) -> bool:
        """A block that has successors, none of which the bounds allow."""
        block = self.function(state[0][-1][0]).blocks[state[1]]
        return bool(block.successors) or bool(block.calls and block.calls in self.code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--levels", type=int, required=True)
    parser.add_argument("--radix-log2", type=int, required=True)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("elf")
    parser.add_argument("function", nargs="+")
    arguments = parser.parse_args()
    program = Program(arguments.objdump, arguments.elf)
    for function in arguments.function:
        per_level = [program.longest(function, bounds(arguments.levels, arguments.radix_log2, target))
                     for target in range(arguments.levels)]
        print(f"{function} {max(per_level)}" + (f" by level {per_level}" if arguments.verbose else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
