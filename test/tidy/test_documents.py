# SPDX-License-Identifier: MIT
"""Lists that stand in texts of this tree beside the code that they describe."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import claims
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


def span_moves() -> set[tuple[str, str, str]]:
    """From, to, and the function: the one table that the others are compared with."""
    found = re.search(r"inline constexpr Move kMoves\[\] = \{(.*?)\n\};", read("src/span/remote_word.hpp"), re.DOTALL)
    assert found
    rows = re.findall(r"\{SpanState::(\w+), SpanState::(\w+), \"(\w+)\"\},", found[1])
    assert len(rows) > 15 and len(set(rows)) == len(rows)
    return set(rows)


def shown_lives() -> dict[int, str]:
    found = re.search(r"enum class SpanLife[^{]*\{(.*?)\};", read("src/inspect/walk.hpp"), re.DOTALL)
    assert found
    return {int(number): name for name, number in re.findall(r"(\w+) = (\d+)", found[1])}


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
    names = ast.literal_eval(shown)
    lives = shown_lives()
    # What owned spans are to their heap, and the other states.
    assert set(lives.values()) == {*states, "hot", "floating", "reusable"} - {"owned"}
    assert all(names[number] == name for number, name in lives.items()) and len(names) == max(lives) + 1


def test_the_states_of_the_model() -> None:
    """span_life.pml has the states by the same names and numbers, but for mixed, which is mixed_span.pml's."""
    found = re.search(r"/\* States of the remote word.*?\n\n", read("models/span_life.pml"), re.DOTALL)
    assert found
    defined = re.findall(r"^#define (\w+) (\d+)$", found[0], re.MULTILINE)
    assert [(name.lower(), int(number)) for name, number in defined] == [
        (name, number) for number, name in enumerate(span_states()) if name != "mixed"]


def cell_moves(states: list[str], start: str, end: str, functions: str) -> set[tuple[str, str, str]]:
    movers = {made_by for _, _, made_by in span_moves()}
    made_by = [name for name in re.findall(r"`(?:\w+::)?(\w+)`", functions) if name in movers]
    ends = [word for word in re.findall(r"\w+", end) if word in states]
    starts = [word for word in re.findall(r"\w+", start) if word in states]
    return {(a, b, name) for a in starts for b in dict.fromkeys(ends) for name in made_by}


def test_the_moves_of_a_span() -> None:
    """The models' table of moves is the code's, and the functions are there."""
    states = span_states()
    moves = span_moves()
    assert {state for start, end, _ in moves for state in (start, end)} == set(states)
    table = re.search(r"^\| from \| to \|.*?\n\n", read("models/README.md"), re.MULTILINE | re.DOTALL)
    assert table
    listed: set[tuple[str, str, str]] = set()
    for start, end, functions in re.findall(r"^\| ([^|]*) \| ([^|]*) \| ([^|]*) \|", table[0], re.MULTILINE):
        listed |= cell_moves(states, start, end, functions)
    assert listed == moves
    sources = read("src/span/span.cpp") + read("src/mixed/life.cpp")
    for made_by in {name for _, _, name in moves}:
        assert re.search(rf"^\S.*\b{made_by}\(", sources, re.MULTILINE), made_by


def test_the_moves_in_the_architecture() -> None:
    """Each row of the table of states: what it says of a state leads where the code does."""
    states = span_states()
    allowed = {(start, end) for start, end, _ in span_moves()}
    table = re.search(r"^\| state \|.*?\n\n", read("docs/architecture.md"), re.MULTILINE | re.DOTALL)
    assert table
    told: set[tuple[str, str]] = set()
    state = ""
    for name, who in re.findall(r"^\| (\w*) ?\|[^|]*\|[^|]*\| ([^|]*) \|", table[0], re.MULTILINE):
        state = name or state
        if ":" in who:
            told |= {(state, end) for end in re.findall(r"\w+", who.rsplit(":", 1)[1]) if end in states}
    # One that stays what it is has another claim_at: the text below the table says so.
    assert told == {(start, end) for start, end in allowed if start != end}


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


def test_the_numbers_in_the_texts() -> None:
    assert list(claims.count_faults(read, claims.CLAIMS)) == []


def test_the_front_page_has_no_figure_typed_by_hand() -> None:
    """What is measured stands in the part that `make figures` writes."""
    before, written, after = re.split(r"<!-- figures.*?-->|<!-- end of figures -->", read("README.md"))
    assert re.search(r"\d\.\d\d times", written)
    assert re.findall(r"(?<!Ubuntu )\b\d+\.\d+", before + after) == []


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim[1])
def test_a_wrong_number_is_found(claim: tuple) -> None:
    path, pattern, _ = claim
    text = read(path)
    found = re.search(pattern, text)
    assert found
    wrong = text[:found.start(1)] + "7" + text[found.end(1):]
    shown = list(claims.count_faults(lambda name: wrong if name == path else read(name), [claim]))
    assert [fault[:2] for fault in shown] == [(path, text.count("\n", 0, found.start()) + 1)]
    gone = text[:found.start()] + text[found.end():]
    assert "looks for it" in next(claims.count_faults(lambda name: gone if name == path else read(name), [claim]))[2]


@pytest.mark.parametrize(("expression", "number"), [
    ("usize{64} << 10", 65536), ("500'000'000", 500_000_000), ("1u << 24", 1 << 24), ("4 * kOther", 12),
    ("kGone + 1", None), ("sizeof(Span)", None), ("7 / 2", 3), ("1 / 0", None),
])
def test_constants_are_computed(expression: str, number: int | None) -> None:
    assert claims.value(expression, {"kOther": 3}) == number


@pytest.mark.parametrize(("heading", "anchor"), [
    ("Six ways to use it", "six-ways-to-use-it"), ("`coffer bench`: A/U, 1.5", "coffer-bench-au-15"),
    ("[The trace](x.md) of *all* a_b", "the-trace-of-all-a_b"), ("Größe - 1", "größe---1"),
])
def test_anchors_are_those_of_the_pages(heading: str, anchor: str) -> None:
    assert documents.slug(heading) == anchor
