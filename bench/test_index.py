# SPDX-License-Identifier: MIT
"""Tests of bench/index.py: its programs, its inputs, and the figures it computes from samples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coffer_bench import allocators
import index
from coffer_bench import index_inputs
from coffer_bench.allocators import Allocator
from coffer_bench.index_rows import (
    JUDGED_SIZES,
    ORDERS,
    PROGRAMS,
    RINGS_512,
    ROWS,
    SIMULATED_ONLY,
    ListRow,
    ProgramRow,
    Row,
)

BENCH = Path(os.environ.get("BENCH_PROGRAMS", allocators.TOP / "build" / "bench"))
SETTINGS = index.Settings(BENCH.parent, rounds=1, scale=0.002)
GLIBC = allocators.Allocator("glibc", None)
STEPPING = [row for row in [*ROWS, *SIMULATED_ONLY] if row.steps]


def accesses(row: Row) -> list[tuple[int, int]]:
    text = index.list_accesses(GLIBC, row, SETTINGS.programs).decode()
    lines = [line.split() for line in text.splitlines() if line[0] not in "#p"]
    return [(int(stream), int(address, 16)) for stream, address in lines]


def test_rows_have_different_names() -> None:
    names = [row.name for row in [*ROWS, *SIMULATED_ONLY, *PROGRAMS]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_has_a_time(row: Row) -> None:
    assert 0 < index.time_row(GLIBC, row, SETTINGS) < 100_000


@pytest.mark.parametrize("row", STEPPING, ids=lambda row: row.name)
def test_every_row_lists_what_it_goes_over(row: Row) -> None:
    listed = accesses(row)
    threads = row.arguments.get("threads", 1)
    assert {stream for stream, _ in listed} == set(range(threads))
    if row.program == "mcache":
        assert len(listed) == row.arguments["blocks"] * threads * row.processes
    elif isinstance(row, ListRow):
        assert len(set(listed)) == len(listed) == ListRow.NODES
    else:
        assert len(listed) > 200


def test_a_ring_visits_each_block_once() -> None:
    for order in ORDERS:
        row = next(row for row in RINGS_512 if row.arguments["order"] == order and row.arguments["size"] == 1024)
        addresses = [address for _, address in accesses(row)]
        assert len(set(addresses)) == 512
        assert (addresses == sorted(addresses)) == (order == "ascending")
        gaps = [b - a for a, b in zip(sorted(addresses), sorted(addresses)[1:])]
        assert min(gaps) >= 1024


def test_an_ideal_ring_has_every_index() -> None:
    for row in RINGS_512:
        command = [*row.list_command(SETTINGS.programs), "placed=1"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        addresses = [int(line.split()[1], 16) for line in text.splitlines() if line[0] != "#"]
        assert set(Counter(address // 64 % 64 for address in addresses).values()) == {8}


@pytest.mark.parametrize("arguments", [["mcache", "order=down"], ["mcache", "size=4"], ["mcache", "blcoks=2"],
                                       ["llubenchmark", "-s", "x"], ["llubenchmark", "-s", "8"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    done = subprocess.run([SETTINGS.programs / arguments[0], *arguments[1:]], capture_output=True, text=True)
    assert done.returncode == 1 and "workload:" in done.stderr


def test_simulated_figures_are_of_the_addresses() -> None:
    """A ring of 256 blocks, 512 bytes apart: 4 indices of 128 on the paper's machine, 8 of 64 on one like this."""
    text = "".join(f"0 {0x10000 + number * 512}\n" for number in range(256)).encode()
    t2 = index.simulate(text, SETTINGS.build_dir, 1, index.geometry.MACHINES["t2"], l2=False)
    common = index.simulate(text, SETTINGS.build_dir, 1, index.geometry.MACHINES["common"], l2=True)
    assert (t2["l1"], t2["indices"], t2["lines"], t2["pages"], t2["tlb"]) == (100, 4, 256, 32, 0)
    assert (common["l1"], common["l2"], common["indices"]) == (100, 0, 8)


def test_threads_of_a_core_share_its_cache() -> None:
    """Figure 4: two lines of each thread on the same two indices. Four threads a core fit in four ways, five do not."""
    t2 = index.geometry.MACHINES["t2"]
    for threads, misses in ((32, 0), (40, 100)):
        text = "".join(f"{thread} {(thread << 21) + line * 16}\n" for thread in range(threads) for line in range(2))
        assert index.simulate(text.encode(), SETTINGS.build_dir, 8, t2, l2=False)["l1"] == misses
    one_each = b"process\n".join([b"", *[b"0 0x1000\n0 0x1010\n"] * 5])
    assert index.simulate(one_each, SETTINGS.build_dir, 1, t2, l2=False)["l1"] == 100


def ring_samples(**by_allocator: float) -> index.Samples:
    """Rings of 512 of 64 bytes take 1 ns, others this."""
    return {row.name: {name: [1.0 if row.arguments["size"] == 64 else value] for name, value in by_allocator.items()}
            for row in RINGS_512}


def test_rings_are_compared_with_the_best_size_and_the_ideal() -> None:
    samples = ring_samples(coffer=1.5, ideal=1.4)
    assert index.ring_over_best(samples, "coffer", "ascending") == 1.5
    assert index.ring_over_ideal(samples, "coffer", "random") == pytest.approx(1.5 / 1.4)
    judged = next(row for row in RINGS_512 if row.arguments == {"blocks": 512, "size": JUDGED_SIZES[0],
                                                                "order": "random"})
    samples[judged.name]["coffer"] = [3.0, 4.2, 5.0]
    assert index.ring_over_ideal(samples, "coffer", "random") == pytest.approx(3)
    assert index.ring_over_best(samples, "coffer", "ascending") == 1.5
    del samples[judged.name]
    assert index.ring_over_best(samples, "coffer", "random") is None


def test_missed_targets_are_named() -> None:
    good = {index.MEAN_LINE: 0.995, index.LEAST_LINE: 0.9}
    assert index.missed({"coffer": good}, ring_samples(coffer=1.05, ideal=1.0)) == []
    bad = {index.MEAN_LINE: 0.989, index.LEAST_LINE: 0.5}
    assert len(index.missed({"coffer": bad}, ring_samples(coffer=1.2, ideal=1.0))) == 6
    assert index.missed({}, {}) == []


def test_a_variant_needs_an_option_that_the_library_knows() -> None:
    library = BENCH.parent / "lib" / "libcoffer.so"
    survey = BENCH.parent / "libexec" / "coffer" / "survey"
    assert index.knows(Allocator("coffer", library), "slack:64K", survey)
    assert not index.knows(Allocator("coffer", library), "no_such_option:1", survey)


def test_options_reach_the_programs() -> None:
    variant = allocators.Allocator("flat", BENCH.parent / "lib" / "libcoffer.so", "no_such_option:1")
    assert variant.environment()["COFFER_CONF"].endswith("no_such_option:1")


def test_inputs_are_what_they_should_be() -> None:
    text = index_inputs.nucleotide_text(1000)
    assert set(text) == set("ACGT\n") and len(text.replace("\n", "")) == 1000
    assert text == index_inputs.nucleotide_text(1000) != index_inputs.nucleotide_text(1000, seed=2)
    assert re.compile(index_inputs.grep_pattern())
    head, *rows = index_inputs.alignment(species=5, sites=50).splitlines()
    assert head == "5 50" and len(rows) == 5 and all(len(row) == 10 + 50 for row in rows)
    columns = set(zip(*(row[10:] for row in rows)))
    assert len(columns) == 50


def test_output_goes_into_a_file(tmp_path: Path) -> None:
    """grep stops at the first match when its output goes nowhere."""
    settings = index.Settings(tmp_path, 1, 1)
    settings.inputs.mkdir(parents=True)
    (settings.inputs / "nucleotides.txt").write_text("A\n" * 10)
    row = ProgramRow("grep", ["/bin/sh", "-c", "test $(/usr/bin/grep -c A nucleotides.txt) = 10 && test -f printed"])
    assert index.time_program(GLIBC, row, settings) >= 0


def test_a_program_that_fails_has_no_time(tmp_path: Path) -> None:
    settings = index.Settings(tmp_path, 1, 1)
    settings.inputs.mkdir(parents=True)
    with pytest.raises(allocators.BenchError, match="status 3: no reason"):
        index.time_program(GLIBC, ProgramRow("x", ["/bin/sh", "-c", "echo no reason >&2; exit 3"]), settings)
    missing = allocators.Allocator("tbb", tmp_path / "libnothing.so")
    with pytest.raises(allocators.BenchError, match="libnothing"):
        index.time_program(missing, ProgramRow("x", ["/bin/true"]), settings)
