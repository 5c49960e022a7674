# SPDX-License-Identifier: MIT
"""How the corpus judges: endings that are made up here, files that do not fit, and that its page is made of its
files."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from pathlib import Path

import cells
import corpus
import page
import pytest
from cells import Cell, Crime, Ending
from coffer_bench.allocators import Allocator

CRIME = Crime("double_free_at_once", "double", "freed twice", says=("double-or-free-span",))
READ = Crime("read_after_free", "stale", "read")
BUILD = Path(os.environ.get("COFFER_BUILD_DIR", cells.TOP / "build"))
STARTED = "library /x/libcoffer.so\ncrime 0x7000\n"
DONE = STARTED + "done\n"
REPORT = "coffer: free of 0x7000: already free (size class 48)\n"


@pytest.mark.parametrize(("status", "out", "err", "letter"), [
    (-6, STARTED, REPORT, "C"),
    (-6, DONE, REPORT, "L"),
    # Later the report may be of another block, but it must be Coffer's.
    (-6, DONE, "coffer: free of 0x8000: not the start of a block\n", "L"),
    (-6, DONE, "", "X"),
    (-6, STARTED, "", "X"),
    (-6, STARTED, REPORT + REPORT, "X"),
    (-6, STARTED, REPORT.replace("7000", "7008"), "X"),
    (-6, STARTED, "coffer: free of 0x7000: not the start of a block\n", "X"),
    (-6, DONE + "end harmed two-owners before the report\n", REPORT, "M"),
    (-11, STARTED, "", "X"),
    (-11, DONE, "", "X"),
    (None, DONE, "", "X"),
    (0, DONE + "end harmless\n", "", "H"),
    (0, DONE + "end harmed content 0x7000\n", "", "M"),
    (0, DONE + "end harmed attackers-address 0x7000\n", "", "M"),
    (0, "end none it takes two threads\n", "", "."),
])
def test_endings(status: int | None, out: str, err: str, letter: str) -> None:
    assert cells.classify(CRIME, status, out, err, is_coffer=True).letter == letter


def test_a_fault_stops_an_access_and_no_free() -> None:
    assert cells.classify(READ, -11, STARTED, "", is_coffer=True).letter == "C"
    assert cells.classify(READ, -11, DONE, "", is_coffer=True).letter == "X"


def test_the_words_of_others_are_their_own() -> None:
    assert cells.classify(CRIME, -6, STARTED, "free(): double free detected\n", is_coffer=False).letter == "C"


@pytest.mark.parametrize(("status", "out"), [(0, DONE), (1, STARTED), (-6, "library /x/libcoffer.so\n")])
def test_a_program_without_a_verdict_is_an_error(status: int, out: str) -> None:
    with pytest.raises((SystemExit, KeyError)):
        cells.classify(CRIME, status, out, "", is_coffer=True)


@pytest.mark.parametrize(("found", "expected", "worse"), [
    ("M", "C", True), ("X", "C", True), ("H", "C", True), ("L", "C", True), ("M", "X", True), ("H", "L", True),
    ("C", "C", False), ("C", "M", False), ("X", "M", False), ("H", "X", False), (".", "C", False), ("M", ".", False),
])
def test_what_is_worse(found: str, expected: str, worse: bool) -> None:
    cell = Cell("double_free_at_once", 8, 0, 1)
    assert cells.is_worse(found, expected) is worse
    assert bool(corpus.worse_cells({cell: Ending(found, "x")}, {cell: expected})) is worse


def test_the_worst_of_several_runs() -> None:
    assert cells.worst("CHC") == "H" and cells.worst(".C") == "C" and cells.worst("XMH") == "M"


def test_a_cell_too_few_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "expected.txt"
    every = {cell: "C" for cell in cells.cells_of(["a_crime"])}
    path.write_text(cells.expected_text(every, ["a_crime"]))
    assert cells.read_expected(path) == every
    path.write_text(path.read_text().rstrip()[:-1])
    with pytest.raises(SystemExit):
        cells.read_expected(path)


def test_every_crime_is_described_and_expected() -> None:
    crimes = cells.read_crimes()
    assert set(cells.listed(BUILD / "test" / "attack" / "attack")) == set(crimes)
    for path in cells.EXPECTED.values():
        assert set(cells.read_expected(path)) == set(cells.cells_of(crimes))


def test_the_part_has_all_crimes_sizes_and_threads() -> None:
    crimes = cells.read_crimes()
    tried = corpus.part(crimes)
    assert {cell.crime for cell in tried} == set(crimes) and {cell.size for cell in tried} == set(cells.SIZES)
    assert {(cell.neighbours, cell.threads) for cell in tried} == {(0, 1), (0, 2), (20_000, 1), (20_000, 2)}


def test_each_way_of_ending_has_a_reason() -> None:
    crimes, expected = cells.read_crimes(), cells.read_expected()
    assert page.without_reason(crimes, expected) == []
    assert page.without_reason(crimes, cells.read_expected(cells.EXPECTED[cells.HARDENED]), cells.HARDENED) == []
    name = next(name for name, crime in crimes.items() if crime.why)
    assert page.without_reason({name: dataclasses.replace(crimes[name], why={})}, expected)


def test_the_page_is_made_of_its_files() -> None:
    text = page.PAGE.read_text()
    assert len(page.MARK.findall(text)) == 6
    assert page.fill(text) == text


@pytest.mark.parametrize(("crime", "harm"), [
    ("double_free_after_one", "two-owners"), ("double_free_after_many", "two-owners"),
    ("double_free_local_after_remote", "two-owners"), ("free_of_anothers_block", "content"),
    ("link_to_attackers_place", "attackers-address"),
    ("link_to_live_block", "two-owners"), ("link_copied", "two-owners"), ("overflow_32", "content"),
    ("underflow_to_last_page", "content"), ("write_after_free_and_traffic", "content"),
    ("overread_32", "anothers-content"), ("read_after_free", "old-content"), ("uninitialised_read", "old-content"),
    ("read_of_stale_link", "link-read"), ("spray_of_same_size", "sprayed"), ("realloc_of_freed", "two-owners"),
    ("double_sized_delete", "two-owners"), ("double_free_of_aligned", "two-owners"),
    ("double_free_by_two_strangers_and_others", "two-owners"),
])
def test_the_oracle_sees_harm_under_a_careless_allocator(crime: str, harm: str) -> None:
    careless = Allocator("careless", BUILD / "test" / "attack" / "libattack_careless.so")
    ending = cells.run_cell(BUILD / "test" / "attack" / "attack", cells.read_crimes()[crime],
                            Cell(crime, 32, 64, 2), careless)
    assert (ending.letter, ending.detail.split()[0]) == ("M", harm)


def test_right_use_is_harmless_under_a_careless_allocator() -> None:
    """The oracle does not see what is not there: what is freed by another function is freed all the same."""
    careless = Allocator("careless", BUILD / "test" / "attack" / "libattack_careless.so")
    for size in (8, 100, 20_000):
        ending = cells.run_cell(BUILD / "test" / "attack" / "attack", cells.read_crimes()["free_of_new"],
                                Cell("free_of_new", size, 64, 2), careless)
        assert ending.letter == "H", ending


def test_the_others_table_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "peers.txt"
    table = {"a": page.Peer("1", {CRIME.name: Counter("CCM")}), "b": page.Peer("", {CRIME.name: Counter()})}
    page.write_peers(table, path)
    assert page.read_peers(path) == table


def test_the_hardened_builds_part_is_smaller() -> None:
    crimes = cells.read_crimes()
    tried = corpus.part(crimes, cells.HARDENED)
    assert {cell.crime for cell in tried} == set(crimes) and {cell.size for cell in tried} == set(cells.SIZES)
    assert len(tried) * 3 == len(corpus.part(crimes))


def test_cells_in_words() -> None:
    every = cells.cells_of(["a"])
    assert page.where(every) == "all sizes (everywhere)"
    assert page.where([cell for cell in every if cell.threads == 2]) == "all sizes (2 threads)"
    assert page.where([cell for cell in every if cell.size == 8 and cell.neighbours]) == "8 (64, 20,000 neighbours)"
    some = [Cell("a", size, neighbours, 2) for neighbours in (0, 64) for size in (8, 16, 24)]
    assert page.where(some) == "8 to 24 (2 threads, 0, 64 neighbours)"
