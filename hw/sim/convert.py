#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""VHDL to Verilog by ghdl --synth, and what has to be mended in its output for yosys and Verilator:
convert.py TOP OUTPUT SOURCE... [-gNAME=VALUE]...

- Every case comes without `default`: yosys makes latches of those that cover an enumeration whole, and of the others
  what `when others` says is lost. ghdl's VHDL, which has the same names, still has it: it becomes the default; where
  there is nothing to be lost, the last alternative does.
- PSL assertions come as `$fatal` under a condition, assumptions as VHDL: both become Verilog's, and the bit with which
  an `always` runs from the first cycle on is tied to one, for a proof by induction would else begin in states where it
  does not run.
- Constants of more than 32 bits come between quotes, which Verilog takes for text: they become numbers.
- Combinational blocks assign with `<=`, which Verilator simulates slowly: they get `=`.
- Identifiers that are keywords of Verilog pass through unchanged: these are refused, by name.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Of Verilog 2001 and SystemVerilog, what a VHDL text might use as a name.
KEYWORDS = frozenset("""
alias always and assert assign assume before bind bins bit break buf bufif0 bufif1 byte case cell chandle checker class
clocking cmos config const constraint context continue cover cross deassign default defparam design disable dist do
edge else end endcase enum event expect export extends extern final first_match for force foreach forever fork forkjoin
function generate genvar global highz0 highz1 if iff ifnone implements implies import incdir include initial inout input
inside instance int integer interconnect interface intersect join join_any join_none large let liblist library local
localparam logic longint macromodule matches medium modport module nand negedge nettype new nexttime nmos nor
noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive priority program
property protected pull0 pull1 pulldown pullup pure rand randc randcase randsequence rcmos real realtime ref reg
reject_on release repeat restrict return rnmos rpmos rtran s_always scalared sequence shortint shortreal showcancelled
signed small soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1
sync_accept_on table tagged task this throughout time timeprecision timeunit tran tri tri0 tri1 triand trior trireg type
typedef union
unique unique0 unsigned until untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while
wildcard wire with within wor xnor xor
""".split())

FLAGS = ["--std=08", "-Wno-hide"]


class ConvertError(Exception):
    """What the user can mend, in one line."""


def defaults_of(vhdl: str) -> dict[str, dict[str, str]]:
    """By module and signal: what a selection has for all other values, as Verilog; without those that have nothing."""
    result: dict[str, dict[str, str]] = {}
    for module, body in re.findall(r"^architecture \w+ of (\w+) is$(.*?)^end \w+;$", vhdl, re.MULTILINE | re.DOTALL):
        chosen = result.setdefault(module, {})
        selections = re.findall(r"^  with \S+ select (\w+) <=\n(?:.*,\n)* +(.*) when others;$", body, re.MULTILINE)
        for name, value in selections:
            bits = re.fullmatch(r"\"([01]+)\"|'([01])'", value)
            fill = re.fullmatch(r"\((\d+) downto 0 => '([01])'\)", value)
            if bits:
                text = bits.group(1) or bits.group(2)
                chosen[name] = f"{len(text)}'b{text}"
            elif fill:
                chosen[name] = f"{{{int(fill.group(1)) + 1}{{1'b{fill.group(2)}}}}}"
            elif re.fullmatch(r"\w+", value):
                chosen[name] = value.removeprefix("wrap_")
            elif "X" not in value:
                raise ConvertError(f"a default in a form that is not known: {value}")
    return result


def with_default(case: re.Match[str], defaults: dict[str, str]) -> str:
    """A whole case statement gets its default."""
    if re.search(r"^\s*default:", case.group(), re.MULTILINE):
        return case.group()
    lines = case.group().split("\n")
    for number in range(len(lines) - 1, 0, -1):
        alternative = re.match(r"^(\s*)\d+'[bdh][0-9a-fA-F]+:( *(\w+) <=.*)", lines[number])
        if alternative:
            if alternative.group(3) in defaults:
                lines.insert(number + 1, f"{alternative.group(1)}default: {alternative.group(3)} <= "
                                         f"{defaults[alternative.group(3)]};")
            else:
                lines[number] = f"{alternative.group(1)}default:{alternative.group(2)}"
            return "\n".join(lines)
    raise ConvertError(f"no alternative in: {lines[0].strip()}")


def with_defaults(text: str, vhdl: str) -> str:
    """Every case of every module."""
    known = defaults_of(vhdl)
    parts = re.split(r"(?=^module )", text, flags=re.MULTILINE)
    for place, part in enumerate(parts):
        module = re.match(r"module (\w+)", part)
        if module:
            if module.group(1) not in known:
                raise ConvertError(f"ghdl's VHDL has no {module.group(1)}")
            parts[place] = re.sub(r"^ *case \(.*?^ *endcase", lambda case: with_default(case, known[module.group(1)]),
                                  part, flags=re.MULTILINE | re.DOTALL)
    return "".join(parts)


def mend_psl(text: str) -> str:
    text = re.sub(r"always @\*\n\s*if \(!(\w+)\)\n\s*\$fatal\(1, \"assertion\(cover\) failure \w+\"\);", "", text)
    text = re.sub(r"always @\*\n\s*if \(!(\w+)\)\n\s*\$fatal\(1, \"assertion failure (\w+)\"\);",
                  r"always @*\n    \2: assert (\1);", text)
    text = re.sub(r"(\w+): assert (\w+) = '1' severity \w+; --  assume", r"always @*\n    \1: assume (\2);", text)
    # Registers of automata: they begin with bit 0 alone, and bit 0 keeps itself.
    for register in re.findall(r"initial\n\s*(n\d+_q) <= \d+'b0+1;", text):
        bit_0 = re.search(rf"assign (n\d+_o) = {register}\[0\];", text)
        if bit_0 and re.search(rf"assign n\d+_o = {bit_0.group(1)} & 1'b1;", text):
            text = text.replace(bit_0.group(), f"assign {bit_0.group(1)} = 1'b1;")
    if "$fatal" in text or re.search(r"severity", text):
        raise ConvertError("an assertion in a form that is not known")
    return text


def number(constant: re.Match[str]) -> str:
    bits = constant.group(1)
    return f"{len(bits)}'b{bits.lower().replace('-', 'x')}"


def mend(text: str, vhdl: str) -> str:
    text = re.sub(r'"([01XxZz-]+)"', number, text)
    if re.search(r'= "|"";|[-+|&^] "', text):
        raise ConvertError("a constant in a form that is not known")
    text = with_defaults(text, vhdl)
    text = re.sub(r"always @\*\n *case \(.*?^ *endcase", lambda block: block.group().replace(" <= ", " = "), text,
                  flags=re.MULTILINE | re.DOTALL)
    declared = set(re.findall(r"^\s*(?:input|output|wire|reg)\s+(?:\[[^]]*\]\s*)?(\w+)", text, re.MULTILINE))
    declared |= set(re.findall(r"^module (\w+)", text, re.MULTILINE))
    for name in sorted(declared & KEYWORDS):
        raise ConvertError(f"'{name}' is a keyword of Verilog: rename it")
    return mend_psl(text)


def convert(top: str, sources: list[Path], generics: dict[str, str | int], properties: bool = False) -> str:
    """The Verilog text of an entity and all that is below it, with or without what is to be proved of it."""
    with tempfile.TemporaryDirectory() as folder:
        def ghdl(*arguments: str) -> str:
            try:
                run = subprocess.run(["ghdl", *arguments], cwd=folder, text=True, capture_output=True, check=False)
            except FileNotFoundError:
                raise ConvertError("ghdl is missing: tools/setup.sh hw") from None
            if run.returncode != 0:
                raise ConvertError((run.stderr or run.stdout).strip())
            return run.stdout

        ghdl("-i", *FLAGS, *(str(source.resolve()) for source in sources))
        ghdl("-m", *FLAGS, top)
        options = [f"-g{name}={value}" for name, value in generics.items()]
        text, vhdl = (ghdl("--synth", *FLAGS, f"--out={language}", *options, top) for language in ("verilog", "vhdl"))
        text = mend(text, vhdl)
        if not properties:
            text = re.sub(r"always @\*\n\s*\w+: (assert|assume) \(\w+\);", "", text)
        return text


def main() -> int:
    generics = dict(argument[2:].split("=", 1) for argument in sys.argv[1:] if argument.startswith("-g"))
    places = [argument for argument in sys.argv[1:] if not argument.startswith("-g")]
    if len(places) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        Path(places[1]).write_text(convert(places[0], [Path(place) for place in places[2:]], generics),
                                   encoding="utf-8")
    except ConvertError as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
