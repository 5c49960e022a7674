#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The unit benches, by VUnit and ghdl: run.py [VUnit's options] [TEST PATTERN]...

`make test-hw` makes the virtual environment that this needs, build/hw/venv, and runs it. The traces and the proofs are
not here: sim/replay.py, formal/prove.py.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from vunit import VUnit

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")).resolve()


def main() -> int:
    # ghdl has several back ends; the one that compiles in memory has the benches running soonest.
    os.environ.setdefault("VUNIT_SIMULATOR", "ghdl")
    arguments = sys.argv[1:]
    if "-o" not in arguments and "--output-path" not in arguments:
        arguments = ["--output-path", str(BUILD / "vunit"), *arguments]
    if shutil.which("ghdl") is None:
        print("run.py: ghdl is missing: tools/setup.sh hw", file=sys.stderr)
        return 1
    unit = VUnit.from_argv(arguments, compile_builtins=False)
    unit.add_vhdl_builtins()
    library = unit.add_library("coffer")
    library.add_source_files(HERE / "rtl" / "*.vhd", vhdl_standard="2008")
    library.add_source_files(HERE / "tb" / "*.vhd", vhdl_standard="2008")
    unit.set_compile_option("ghdl.a_flags", ["-Wno-hide"])
    # Values before reset are not yet numbers; that is no news.
    unit.set_sim_option("ghdl.sim_flags", ["--ieee-asserts=disable"])
    bench = library.test_bench("tb_hbs")
    for name in ("hbs", "hbs_reference"):
        for free_bit in ("0", "1"):
            bench.add_config(f"{name},free={free_bit}", generics={"unit_g": name, "free_bit_g": f"'{free_bit}'"})
    bench = library.test_bench("tb_ohebs")
    for name in ("ohebs", "ohebs_joining", "ohebs_waiting", "ohebs_shared", "ohebs_shared_joining"):
        bench.add_config(name, generics={"unit_g": name})
    for shared in (False, True):
        library.test_bench("tb_largest_heap").add_config(f"shared={shared}", generics={"shared_g": shared})
    for depth in (2, 3, 8):
        library.test_bench("tb_free_buffer").add_config(f"depth={depth}", generics={"depth_g": depth})
    bench = library.test_bench("tb_bus")
    for name in ("axi", "axi,hbs", "wishbone", "wishbone,pipelined,posted"):
        bench.add_config(name, generics={f"{word}_g": word in name.split(",")
                                         for word in ("axi", "hbs", "pipelined", "posted")})
    unit.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
