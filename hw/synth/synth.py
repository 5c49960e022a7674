#!/usr/bin/env python3
"""Area on an ECP5: synth.py [UNIT]...

Converts a unit to Verilog (sim/convert.py), has yosys synthesise it, and prints one row of a table for each: LUTs,
flip-flops, carry cells, block RAM. Latches are a failure. doc/synthesis.md has the table.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "sim"))

from convert import ConvertError, convert  # noqa: E402

BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")) / "synth"

# Name, entity, generics.
UNITS: dict[str, tuple[str, dict[str, str | int]]] = {
    "hbs_4k": ("hbs", {"heap_log2_g": 12}),
    "hbs": ("hbs", {"heap_log2_g": 25}),
    "index": ("index_component", {"heap_log2_g": 26}),
    "index_of_4": ("index_component", {"heap_log2_g": 26, "depth_g": 4}),
    "ohebs_4k": ("ohebs", {"heap_log2_g": 12}),
    "ohebs": ("ohebs", {"heap_log2_g": 25}),
    "sdram": ("sdram_controller", {}),
    # The bus faces' own part.
    "registers": ("register_face", {}),
    "axi_slave": ("axi_slave", {}),
    "axi_master": ("axi_master", {}),
    "wishbone_master": ("wishbone_master", {}),
}


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
    counts = re.findall(rf"^ +{name} +(\d+)$", text, re.MULTILINE)
    return int(counts[-1]) if counts else 0


def synthesise(name: str) -> str:
    top, generics = UNITS[name]
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.v").write_text(convert(top, sorted((HERE / "rtl").glob("*.vhd")), generics), encoding="utf-8")
    script = f"read_verilog design.v; synth_ecp5 -top {top} -json design.json; stat"
    text = run(["yosys", "-p", script], folder / "yosys.log")
    if "Latch inferred" in text:
        raise SynthError(f"{name}: there are latches: {folder / 'yosys.log'}")
    return (f"| {name} | {cells(text, 'LUT4')} | {cells(text, 'TRELLIS_FF')} | {cells(text, 'CCU2C')} | "
            f"{cells(text, 'DP16KD')} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("units", nargs="*", metavar="UNIT", help=", ".join(UNITS))
    arguments = parser.parse_args()
    unknown = set(arguments.units) - set(UNITS)
    if unknown:
        parser.error(f"no unit {', '.join(sorted(unknown))}")
    print("| unit | LUT4 | flip-flops | carries | block RAM |\n|---|---|---|---|---|", flush=True)
    try:
        for name in arguments.units or UNITS:
            print(synthesise(name), flush=True)
    except (ConvertError, SynthError) as error:
        print(f"synth: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
