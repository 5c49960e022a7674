#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Area and speed: synth.py [--place PART] [--seeds N] [UNIT]..., or synth.py --tables [--place PART] [--seeds N].

Converts a unit to Verilog (sim/convert.py), has yosys synthesise it, and prints one row of a table for each: LUTs,
flip-flops, carry cells, block RAM, LUTs used as RAM. Latches are a failure. With --place the unit, its inputs behind a
shift register and its outputs behind flip-flops, is placed and routed too, once for each seed, and the row ends with
its clocks in MHz, the median's and the best: by nextpnr from PyPI, in a virtual environment made for it. --tables
writes the tables of doc/synthesis.md, each when its last row is there, for all parts or one; a row takes a processor
some two minutes, all 22 an hour.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "sim"))

from convert import ConvertError, convert  # noqa: E402

BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")).resolve() / "synth"

Generics = dict[str, "str | int"]


def ohebs(heap_log2: int, depth: int = 8, shared: bool = False, joining: bool = False) -> tuple[str, Generics]:
    return "ohebs_of_depth", {"heap_log2_g": heap_log2, "depth_g": depth, "shared_g": str(shared).lower(),
                              "recombine_g": str(joining).lower()}


# Name: entity, generics. A heap of 32 MB has 22 indices; the largest, of 2^31 bytes, 28.
UNITS: dict[str, tuple[str, Generics]] = {
    "hbs_4k": ("hbs", {"heap_log2_g": 12}),
    "hbs": ("hbs", {"heap_log2_g": 25}),
    "index": ("index_component", {"heap_log2_g": 26}),
    "index_of_4": ("index_component", {"heap_log2_g": 26, "depth_g": 4}),
    "ohebs_4k": ohebs(12),
    "ohebs": ohebs(25),
    "shared_4k": ohebs(12, shared=True),
    "shared": ohebs(25, shared=True),
    "shared_of_4": ohebs(25, 4, shared=True),
    "shared_of_16": ohebs(25, 16, shared=True),
    "shared_joining": ohebs(25, shared=True, joining=True),
    "shared_28": ohebs(31, shared=True),
    "shared_28_of_4": ohebs(31, 4, shared=True),
    "shared_28_of_16": ohebs(31, 16, shared=True),
    "sdram": ("sdram_controller", {}),
    # The bus faces' own part, and a whole unit with them.
    "registers": ("register_face", {}),
    "axi_slave": ("axi_slave", {}),
    "axi_master": ("axi_master", {}),
    "wishbone_master": ("wishbone_master", {}),
    "axi": ("coffer_axi", {"shared_g": "true"}),
    "wishbone": ("coffer_wishbone", {"shared_g": "true"}),
}

# What yosys calls the cells of each family: LUTs, flip-flops, carries, block RAM, LUTs as RAM.
CELLS = {
    "ecp5": ("LUT4", "TRELLIS_FF", "CCU2C", "DP16KD", "TRELLIS_DPR16X4"),
    "ice40": ("SB_LUT4", "SB_DFF\\w*", "SB_CARRY", "SB_RAM40_4K", "none"),
}


class Part(NamedTuple):
    family: str
    title: str
    synthesis: str         # of yosys
    placing: list[str]     # of nextpnr
    megahertz: int         # what nextpnr aims at


ECP5 = ["--45k", "--package", "CABGA381", "--textcfg", "/dev/null", "--speed"]
PARTS = {
    "ecp5": Part("ecp5", "ECP5-45, speed 6", "synth_ecp5 -abc9", [*ECP5, "6"], 100),
    "ecp5_8": Part("ecp5", "ECP5-45, speed 8", "synth_ecp5 -abc9", [*ECP5, "8"], 100),
    "hx8k": Part("ice40", "iCE40 HX8K", "synth_ice40 -abc9 -device hx",
                 ["--hx8k", "--package", "ct256", "--asc", "/dev/null"], 60),
    "up5k": Part("ice40", "iCE40 UP5K", "synth_ice40 -abc9 -device u",
                 ["--up5k", "--package", "sg48", "--asc", "/dev/null"], 20),
}

# What the tables of doc/synthesis.md are made of.
TABLES = [
    ("ecp5", ["shared", "shared_joining", "shared_of_4", "shared_of_16", "shared_28", "shared_28_of_4",
              "shared_28_of_16", "hbs", "index", "index_of_4"]),
    ("ecp5_8", ["shared"]),
    ("hx8k", ["shared", "shared_of_4", "shared_of_16", "shared_28", "shared_28_of_4", "hbs", "index"]),
    ("up5k", ["shared", "shared_of_4", "shared_4k", "index"]),
]
HEAD = "| unit | LUT4 | flip-flops | carries | block RAM | RAM of LUTs | MHz, median | best |\n" + "|---" * 8 + "|"


class SynthError(Exception):
    """What the user can mend, in one line."""


def run(command: list[str | Path], log: Path) -> str:
    try:
        with log.open("w", encoding="utf-8") as out:
            done = subprocess.run(command, cwd=log.parent, stdout=out, stderr=subprocess.STDOUT, check=False)
    except FileNotFoundError:
        raise SynthError(f"{command[0]} is missing: tools/setup.sh hw") from None
    text = log.read_text(encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise SynthError(f"{command[0]} failed: {log}")
    return text


def cells(text: str, name: str) -> int:
    """In the last statistics: all kinds of cells that the expression matches."""
    last = text[text.rindex("Number of cells:"):]
    return sum(int(count) for count in re.findall(rf"^ +{name} +(\d+)$", last, re.MULTILINE))


def with_registers(text: str, top: str) -> str:
    """A module `placed` around the unit, with four pins: so that every path ends at flip-flops, as in a system."""
    head = re.search(rf"^module {top}\n(.*?);$", text, re.MULTILINE | re.DOTALL)
    if head is None:
        raise SynthError(f"no module {top} in the Verilog")
    ports = [(way, int(high or 0) + 1, name) for way, high, name in re.findall(
        r"(input|output) +(?:\[(\d+):0\] )?(\w+)", head.group(1)) if name != "clk_i"]
    widths = {way: sum(width for kind, width, _ in ports if kind == way) for way in ("input", "output")}
    connections = ["    .clk_i(clk)"]
    at = {"input": 0, "output": 0}
    for way, width, name in ports:
        bus = "inputs" if way == "input" else "outputs"
        connections.append(f"    .{name}({bus}[{at[way] + width - 1}:{at[way]}])")
        at[way] += width
    return text + f"""
module placed(input clk, input shift, input load, output reg result);
  reg [{widths["input"] - 1}:0] chain, inputs;
  reg [{widths["output"] - 1}:0] kept;
  wire [{widths["output"] - 1}:0] outputs;
  always @(posedge clk) begin
    chain <= {{chain, shift}};
    if (load) begin
      inputs <= chain;
      kept <= outputs;
    end else
      kept <= kept >> 1;
    result <= kept[0];
  end
  {top} unit(
{(chr(44) + chr(10)).join(connections)});
endmodule
"""


def tools() -> Path:
    """The folder of nextpnr's programs, installed if they are not there."""
    wanted = (HERE / "synth" / "requirements.txt").read_text(encoding="utf-8")
    venv = BUILD / "venv"
    stamp = venv / "complete"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        run([sys.executable, "-m", "venv", "--clear", venv], BUILD / "venv.log")
        run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary", ":all:", "-r", HERE / "synth" / "requirements.txt"], BUILD / "pip.log")
        stamp.write_text(wanted, encoding="utf-8")
    return venv / "bin"


def place(folder: Path, part: Part, seed: int) -> float | None:
    """The clock; nothing if the part is too small."""
    log = folder / f"nextpnr_{part.title.replace(' ', '_')}_{seed}.log"
    command = [tools() / f"yowasp-nextpnr-{part.family}", "--json", "placed.json", *part.placing, "--seed", str(seed),
               "--freq", str(part.megahertz), "--timing-allow-fail"]
    try:
        text = run(command, log)
    except SynthError:
        if "ERROR: Unable to place" in log.read_text(encoding="utf-8", errors="replace"):
            return None
        raise
    # Of the clock's own paths, the last line is the one after routing.
    speeds = re.findall(r"Max frequency for clock +'\S*clk\S*': +([\d.]+) MHz", text)
    if not speeds:
        raise SynthError(f"nextpnr gives no clock: {log}")
    return float(speeds[-1])


def clocks(folder: Path, part: Part, seeds: int) -> str:
    run(["yosys", "-p", f"read_verilog placed.v; {part.synthesis} -top placed -json placed.json"],
        folder / "placed.log")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda seed: place(folder, part, seed), range(1, seeds + 1)))
    speeds = [speed for speed in found if speed is not None]
    if len(speeds) < seeds:
        return "does not fit | "
    return f"{statistics.median(speeds):.0f} | {max(speeds):.0f}"


def synthesise(name: str, part: Part, seeds: int) -> str:
    """The row of one unit; seeds 0: without placing."""
    top, generics = UNITS[name]
    folder = BUILD / f"{part.family}_{name}"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [*sorted((HERE / "rtl").glob("*.vhd")), *sorted((HERE / "synth").glob("*.vhd"))]
    text = convert(top, sources, generics)
    (folder / "design.v").write_text(text, encoding="utf-8")
    (folder / "placed.v").write_text(with_registers(text, top), encoding="utf-8")
    log = run(["yosys", "-p", f"read_verilog design.v; {part.synthesis} -top {top} -json design.json; stat"],
              folder / "yosys.log")
    if "Latch inferred" in log:
        raise SynthError(f"{name}: there are latches: {folder / 'yosys.log'}")
    counts = [str(cells(log, cell)) for cell in CELLS[part.family]]
    return f"| {name} | {' | '.join(counts)} | {clocks(folder, part, seeds) if seeds else ' | '} |"


def versions(part: Part) -> str:
    """Of what has made a table."""
    ghdl = run(["ghdl", "--version"], BUILD / "version.log").split()[1]
    yosys = run(["yosys", "-V"], BUILD / "version.log").split()[1]
    wanted = (HERE / "synth" / "requirements.txt").read_text(encoding="utf-8")
    nextpnr = re.search(rf"^yowasp-nextpnr-{part.family}==(\S+)$", wanted, re.MULTILINE)
    return f"ghdl {ghdl}, yosys {yosys}, yowasp-nextpnr-{part.family} {nextpnr.group(1) if nextpnr else 'unknown'}"


def with_table(text: str, title: str, table: str) -> str:
    """The page with this table in its place."""
    begin, end = "<!-- synth.py --tables -->\n", "<!-- end -->\n"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SynthError("doc/synthesis.md: the marks are missing")
    before, rest = text.split(begin)
    tables, after = rest.split(end)
    parts = re.split(r"^(?=### )", tables, flags=re.MULTILINE)
    places = [place for place, part in enumerate(parts) if part.startswith(f"### {title}\n")]
    new = f"### {title}\n\n{table}\n"
    if places:
        parts[places[0]] = new
    else:
        parts.append(new)
    return before + begin + "".join(parts) + end + after


def write_tables(only: str | None, seeds: int) -> None:
    """Between the marks in doc/synthesis.md."""
    page = HERE / "doc" / "synthesis.md"
    for name, units in TABLES:
        if only not in (None, name):
            continue
        part = PARTS[name]
        print(f"{part.title}\n{HEAD}", flush=True)
        rows = []
        for unit in units:
            rows.append(synthesise(unit, part, seeds))
            print(rows[-1], flush=True)
        table = f"By {versions(part)}; of {seeds} seeds.\n\n{HEAD}\n" + "\n".join(rows) + "\n"
        page.write_text(with_table(page.read_text(encoding="utf-8"), part.title, table), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="*", metavar="UNIT", help=", ".join(UNITS))
    parser.add_argument("--place", choices=sorted(PARTS), help="place and route too; without: area, ECP5")
    parser.add_argument("--seeds", type=int, default=3, help="how often; the clock varies by some percent with them")
    parser.add_argument("--tables", action="store_true", help="write the tables of doc/synthesis.md")
    arguments = parser.parse_args()
    unknown = set(arguments.units) - set(UNITS)
    if unknown:
        parser.error(f"no unit {', '.join(sorted(unknown))}")
    if arguments.seeds < 1 or (arguments.tables and arguments.units):
        parser.error("at least one seed; a part's table is made whole")
    try:
        if arguments.tables:
            write_tables(arguments.place, arguments.seeds)
            return 0
        print(HEAD, flush=True)
        for name in arguments.units or UNITS:
            print(synthesise(name, PARTS[arguments.place or "ecp5"], arguments.seeds if arguments.place else 0),
                  flush=True)
    except (ConvertError, SynthError) as error:
        print(f"synth: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
