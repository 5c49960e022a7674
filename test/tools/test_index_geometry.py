# SPDX-License-Identifier: MIT
"""The shape of caches: read from a tree like the kernel's, completed, stated, or taken as usual."""

from __future__ import annotations

from pathlib import Path

import pytest
from coffer.errors import CofferError
from coffer.index import geometry
from coffer.index.geometry import COMMON, Geometry


def make_cache(root: Path, processor: int, index: int, **files: object) -> None:
    directory = root / f"cpu{processor}" / "cache" / f"index{index}"
    directory.mkdir(parents=True)
    for name, value in files.items():
        (directory / name).write_text(f"{value}\n")


def make_processor(root: Path, processor: int, ways: int = 12) -> None:
    make_cache(root, processor, 0, level=1, type="Data", size="48K", coherency_line_size=64, number_of_sets=64,
               ways_of_associativity=ways)
    make_cache(root, processor, 1, level=1, type="Instruction", size="32K", coherency_line_size=128, number_of_sets=32,
               ways_of_associativity=8)
    make_cache(root, processor, 2, level=2, type="Unified", size="1024K", coherency_line_size=64, number_of_sets=1024,
               ways_of_associativity=16)


@pytest.fixture(autouse=True)
def first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "first_processor", lambda: 0)


@pytest.fixture()
def no_sysconf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "from_sysconf", dict)


def test_the_kernels_word_is_taken(tmp_path: Path) -> None:
    make_processor(tmp_path, 0)
    machine = geometry.this_machine(tmp_path)
    assert (machine.l1, machine.l2) == (Geometry(64, 64, 12), Geometry(64, 1024, 16))
    assert machine.origin == "the kernel, processor 0"
    assert "48 KiB, 64 indices, 12 ways, lines of 64 bytes" in machine.describe()


def test_what_a_kernel_leaves_out_is_computed(tmp_path: Path) -> None:
    make_cache(tmp_path, 0, 0, level=1, type="Data", size="64K", coherency_line_size=64, ways_of_associativity=4)
    make_cache(tmp_path, 0, 1, level=2, type="Unified", size="1M", coherency_line_size=64, number_of_sets=2048)
    machine = geometry.this_machine(tmp_path)
    assert (machine.l1, machine.l2) == (Geometry(64, 256, 4), Geometry(64, 2048, 8))


def test_without_sysfs_the_c_library_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: value for level, numbers in ((1, (32768, 8, 64)), (2, (2097152, 16, 64)))
             for name, value in zip(geometry.SYSCONF[level], numbers)}
    monkeypatch.setattr(geometry.os, "sysconf_names", known)
    monkeypatch.setattr(geometry.os, "sysconf", known.__getitem__)
    machine = geometry.this_machine(tmp_path)
    assert (machine.l1, machine.l2) == (Geometry(64, 64, 8), Geometry(64, 2048, 16))
    assert machine.origin == "L1: the C library; L2: the C library"


def test_where_nobody_knows_it_is_said(tmp_path: Path, no_sysconf: None) -> None:
    machine = geometry.this_machine(tmp_path)
    assert (machine.l1, machine.l2) == (COMMON[1], COMMON[2])
    assert "L1: NOT KNOWN, taken as 64:64:8; --l1 states it" in machine.origin
    assert "L2: NOT KNOWN" in machine.origin


def test_a_useless_answer_is_none(tmp_path: Path, no_sysconf: None) -> None:
    make_cache(tmp_path, 0, 0, level=1, type="Data", size="0K", coherency_line_size=64, number_of_sets=0,
               ways_of_associativity=0)
    assert "L1: NOT KNOWN" in geometry.this_machine(tmp_path).origin


def test_cores_that_differ_are_named(tmp_path: Path) -> None:
    make_processor(tmp_path, 0)
    make_processor(tmp_path, 1)
    make_processor(tmp_path, 2, ways=8)
    assert "others have other caches: 2" in geometry.this_machine(tmp_path).origin


def test_stated_caches_replace_those_found(tmp_path: Path) -> None:
    make_processor(tmp_path, 0)
    machine = geometry.choose("this", "16:128:4", None, tmp_path)
    assert machine.l1 == Geometry(16, 128, 4) and machine.l1.page == 2048
    assert machine.l2 == Geometry(64, 1024, 16)
    assert machine.origin.endswith("L1 as stated")
    assert geometry.choose("t2", None, None).l1 == Geometry(16, 128, 4)


@pytest.mark.parametrize("text", ["", "64", "64:64", "64:64:0", "48:64:8", "64:64:8:1", "64:-64:8", "a:b:c"])
def test_a_cache_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(CofferError, match="LINE:SETS:WAYS"):
        Geometry.parse(text)


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(CofferError, match="no machine is called t3; there are: this t2 common"):
        geometry.choose("t3", None, None)


def test_this_machine_has_caches() -> None:
    machine = geometry.choose("this", None, None)
    assert machine.l1.line >= 16 and machine.l1.sets >= 1 and machine.l2.page >= machine.l1.page // 8
