#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""o1heap and TLSF beside coffer-rt, in instructions: peers.py [--work DIR].

o1heap is the C source that its crate brings along, compiled as coffer-rt is, assertions off; TLSF is the crate rlsf, in
Rust, for no C one is to be had as a package. Cargo fetches both by name and version (peers/Cargo.toml). Told are the
longest paths through the machine code (longest_path.py: neither has a loop in these calls), and what count_calls.py and
replay.py tell of the same calls on rv32im. The rows of both in rt/README.md are made by this.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import count_calls
import longest_path
import replay

RT = Path(__file__).resolve().parent.parent
SOURCES = RT / "tools/peers"
INCLUDES = [f"-I{RT.parent / 'include'}", f"-I{RT / 'test'}"]
RUST = {"rv32im": "riscv32im-unknown-none-elf", "x86-64": "x86_64-unknown-linux-gnu"}
COMPILERS = {
    "rv32im": ["riscv64-unknown-elf-gcc", "-march=rv32im", "-misa-spec=2.2", "-mabi=ilp32"],
    "x86-64": ["gcc", "-fno-pic", "-no-pie", "-fno-stack-protector", "-fcf-protection=none"],
}
OBJDUMPS = {"rv32im": "riscv64-unknown-elf-objdump", "x86-64": "objdump"}
NO_LIMITS = longest_path.Limits({}, {})


class Peer(NamedTuple):
    name: str
    init: str
    alloc: str
    free: str
    machines: dict[str, list]  # what to link, per machine

    def renamed(self) -> list[str]:
        """The linker's options by which the calls of coffer_rt.h are the peer's."""
        names = {"init": self.init, "alloc": self.alloc, "free": self.free}
        return [f"-Wl,--defsym=coffer_rt_{call}={name}" for call, name in names.items()]


def run(command: list, **more: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"peers: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def is_installed(target: str) -> bool:
    root = Path(run(["rustc", "--print", "sysroot"]).strip())
    return (root / "lib/rustlib" / target).exists()


def fetch(work: Path) -> list[Peer]:
    """Both peers, for both machines."""
    if not shutil.which("cargo"):
        sys.exit("peers: cargo is missing")
    directory = work / "peers"  # cargo writes beside its sources
    shutil.copytree(SOURCES, directory, dirs_exist_ok=True)
    packages = json.loads(run(["cargo", "metadata", "--format-version", "1"], cwd=directory))["packages"]
    [o1heap] = [Path(package["manifest_path"]).parent for package in packages if package["name"] == "o1heap"]
    source = o1heap / "o1heap/o1heap/o1heap.c"
    for target in RUST.values():
        if not is_installed(target):
            run(["rustup", "target", "add", target])
        run(["cargo", "build", "--quiet", "--release", "--target", target], cwd=directory)
    libraries = {machine: [directory / "target" / target / "release/librt_peers.a"] for machine, target in RUST.items()}
    # Its assertions are the C library's, which a bare machine has not.
    headers = work / "headers"
    headers.mkdir(exist_ok=True)
    (headers / "assert.h").write_text("#define static_assert _Static_assert\n")
    plain = [f"-I{headers}", "-DO1HEAP_ASSERT(x)=((void)0)", source]
    return [Peer("o1heap", "o1heapInit", "o1heapAllocate", "o1heapFree", dict.fromkeys(RUST, plain)),
            Peer("rlsf (TLSF)", "rlsf_init", "rlsf_alloc", "rlsf_free", libraries)]


def longest(peer: Peer, machine: str, work: Path) -> list[int]:
    """The most instructions that an allocation and a free can execute."""
    program = work / "alone"
    kept = [f"-Wl,-u,{name}" for name in (peer.init, peer.alloc, peer.free)]
    run([*COMPILERS[machine], "-std=c11", "-ffreestanding", "-O2", *kept, *peer.machines[machine], "-nostdlib",
         "-static", f"-Wl,-e,{peer.alloc}", "-Wl,--unresolved-symbols=ignore-all", "-lgcc", "-o",
         program])
    code = longest_path.Program(OBJDUMPS[machine], str(program), needs_marks=False)
    return [code.longest(call, NO_LIMITS) for call in (peer.alloc, peer.free)]


def observed(peer: Peer, work: Path) -> dict[str, list[int]]:
    """As count_calls.measure, of the same calls."""
    program = work / "calls"
    run([*count_calls.COMPILER, *INCLUDES, *peer.renamed(), RT / "tools/calls.c", SOURCES / "shim.c",
         RT / "test/start.c", *peer.machines["rv32im"], "-lgcc", "-o", program])
    empty = count_calls.counts(program, 9, 10, 1)
    return count_calls.overhead(count_calls.counts(program, 0, 300, 1), empty)


def replayed(peer: Peer, trace: Path, work: Path) -> replay.Result:
    """As replay.measure, of the same calls."""
    calls = replay.read(trace)
    packed = work / "packed"
    packed.write_bytes(struct.pack(f"<{len(calls)}I", *calls))
    common = [f'-DRT_CALLS="{packed}"', "-DRT_PEER", *INCLUDES, *peer.renamed(), RT / "tools/replay.c",
              SOURCES / "shim.c"]
    regions = work / "regions"
    run([*COMPILERS["x86-64"], "-std=gnu11", "-O2", *common, *peer.machines["x86-64"], "-o", regions])
    [live], [_, region] = replay.numbers([regions])
    program = work / "replay.elf"
    run([*replay.RISCV, f"-DRT_REGION={(region * 5 // 4 + 4095) // 4096 * 4096}U", RT / "test/bare.c", *common,
         *peer.machines["rv32im"], "-lgcc", "-o", program])
    return replay.Result(*replay.run_counting(program)[0], region, live)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="keeps what is built")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = (arguments.work or Path(name)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        peers = fetch(work)
        for machine in RUST:
            for peer in peers:
                alloc, free = longest(peer, machine, work)
                print(f"| {machine}, {peer.name} | any | any | {alloc} | {free} |", flush=True)
        for peer in peers:
            calls = observed(peer, work)
            cells = [f"{min(values)} | {sum(values) / len(values):.1f} | {max(values)}" for values in calls.values()]
            print(f"| {peer.name} | {' | '.join(cells)} |", flush=True)
        for trace in sorted((RT / "traces").glob("*.txt")):
            print(replay.table(trace.stem, {peer.name: replayed(peer, trace, work) for peer in peers}), flush=True)


if __name__ == "__main__":
    main()
