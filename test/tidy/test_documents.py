# SPDX-License-Identifier: MIT
"""Lists that stand in texts of this tree beside the code that they describe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import documents
import pytest

TOP = Path(__file__).resolve().parents[2]


def read(path: str) -> str:
    return (TOP / path).read_text(encoding="utf-8")


def span_states() -> list[str]:
    found = re.search(r"enum class SpanState[^{]*\{(.*?)\};", read("src/span/remote_word.hpp"), re.DOTALL)
    assert found
    states = re.findall(r"^\s*(\w+) = \d+", found[1], re.MULTILINE)
    assert len(states) > 5
    return states


def shown_lives() -> list[str]:
    found = re.search(r"enum class SpanLife[^{]*\{(.*?)\};", read("src/inspect/walk.hpp"), re.DOTALL)
    assert found
    return re.findall(r"\w+", found[1])


def test_the_states_of_a_span() -> None:
    """Above the functions that move them, in the architecture; what they are to a viewer, in what that prints."""
    states = span_states()
    above = read("src/span/span.hpp").split("#pragma once")[0]
    assert re.findall(r"^//   (\w+) +(?:heap|none) ", above, re.MULTILINE) == states
    table = re.search(r"^\| state \|.*?\n\n", read("docs/architecture.md"), re.MULTILINE | re.DOTALL)
    assert table
    # Rows without a name in front belong to the one above.
    named = [name for name in re.findall(r"^\| (\w+) \|", table[0], re.MULTILINE) if name != "state"]
    assert list(dict.fromkeys(named)) == states
    (shown,) = [node.value for node in ast.walk(ast.parse(read("tools/coffer/live/page.py")))
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "STATES"]
    assert ast.literal_eval(shown) == shown_lives()


def test_the_options() -> None:
    """The guide has all, the front page none that is not."""
    declared = set(re.findall(r"^  (?:SIZE|UNSIGNED|CHOICE|BOOLEAN|TEXT)\((\w+),", read("src/config/options.hpp") +
                              read("src/config/table.hpp"), re.MULTILINE))
    assert len(declared) > 20
    first_cells = re.findall(r"^\|([^|]*)\|", read("docs/guide/using.md"), re.MULTILINE)
    assert declared - set(re.findall(r"`(\w+)`", " ".join(first_cells))) == set()
    table = re.search(r"^\| option \|.*?\n\n", read("README.md"), re.MULTILINE | re.DOTALL)
    assert table
    front = set(re.findall(r"^\| `(\w+)` \|", table[0], re.MULTILINE))
    assert front and front <= declared


@pytest.mark.parametrize(("heading", "anchor"), [
    ("Six ways to use it", "six-ways-to-use-it"), ("`coffer bench`: A/U, 1.5", "coffer-bench-au-15"),
    ("[The trace](x.md) of *all* a_b", "the-trace-of-all-a_b"), ("Größe - 1", "größe---1"),
])
def test_anchors_are_those_of_the_pages(heading: str, anchor: str) -> None:
    assert documents.slug(heading) == anchor
