# SPDX-License-Identifier: MIT
"""The tables of doc/synthesis.md are put in their places; that units come through yosys is hw.synthesis's to test."""

from __future__ import annotations

import subprocess
import sys

import pytest
from replay import HERE

sys.path.insert(0, str(HERE / "synth"))

import synth  # noqa: E402

PAGE = "head\n<!-- synth.py --tables -->\n\n### One\n\nold\n\n### Two\n\nkept\n\n<!-- end -->\ntail\n"


def test_a_table_takes_the_place_of_the_old_one() -> None:
    assert synth.with_table(PAGE, "One", "new\n") == PAGE.replace("old", "new")
    assert synth.with_table(PAGE, "Two", "new\n") == PAGE.replace("kept", "new")
    assert synth.with_table(PAGE, "Three", "new\n") == PAGE.replace("<!-- end", "### Three\n\nnew\n\n<!-- end")
    with pytest.raises(synth.SynthError, match="marks are missing"):
        synth.with_table("head\n", "One", "new\n")


def test_the_page_has_the_tables_that_are_made() -> None:
    """Those that say what has made them; the page says where others come from."""
    text = (HERE / "doc" / "synthesis.md").read_text(encoding="utf-8")
    for name, units in synth.TABLES:
        table = text.partition(f"### {synth.PARTS[name].title}\n")[2].partition("###")[0]
        if not table.startswith("\nBy ghdl "):
            continue
        assert [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:] == units, name


@pytest.mark.parametrize("words", [["--tables", "hbs"], ["--seeds", "0"], ["none"], ["--place", "none"]])
def test_options_that_cannot_be(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-B", HERE / "synth" / "synth.py", *words], text=True, capture_output=True,
                          check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
