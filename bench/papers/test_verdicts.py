# SPDX-License-Identifier: MIT
"""docs/results/verdicts.json: its rules decide, its pages say the same, and a verdict that turns is found."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cif
import counted
import hoard
import rules
import scalloc
import verdicts

ROWS = verdicts.read()
IDS = [row.id for row in ROWS]
TEXTS = ("id", "table", "claim", "theirs", "command", "here", "holds", "commit")


def others(figure: rules.Figure) -> Iterator[rules.Figure]:
    """The same with one of its values, or all of them, far from what it is."""
    for change in (lambda value: value + 1, lambda value: value * 1000, lambda value: value / 1000):
        if isinstance(figure, dict):
            yield from ({**figure, key: change(value)} for key, value in figure.items())
            yield {key: change(value) for key, value in figure.items()}
        elif isinstance(figure, list):
            yield from ([*figure[:place], change(value), *figure[place + 1:]] for place, value in enumerate(figure))
            yield [change(value) for value in figure]
        else:
            yield change(figure)


def test_pages_are_made_from_the_file() -> None:
    differ = [path.name for path, text, made in verdicts.pages(ROWS) if text != made]
    assert not differ, "python3 bench/papers/verdicts.py pages"


def test_a_page_that_says_something_else_is_found() -> None:
    page = verdicts.PAGES["hoard"]
    text = (verdicts.TOP / page).read_text()
    for was, now in (("**does not hold**", "**holds**"), ("| simulated |", "| timed |")):
        assert was in text and verdicts.with_tables(page, text.replace(was, now, 1), ROWS) == text
    with pytest.raises(rules.RuleError, match="0 places for the table hoard"):
        verdicts.with_tables(page, text.replace("<!-- verdicts hoard -->", ""), ROWS)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_row_is_whole(row: verdicts.Row) -> None:
    content = row.content
    assert all(isinstance(content[key], str) and content[key] for key in TEXTS)
    assert not content.keys() - {*TEXTS, "in_part", "why", "counted", "figures", "long", "by"}
    assert content["table"] in verdicts.PAGES and "|" not in row.here() and "\n" not in row.here()
    assert row.counted.keys() <= row.figures.keys()
    assert all(spec["by"] in counted.MEASURES for spec in row.counted.values())
    # What is counted is counted again by a test, as far as the rules read it.
    read = rules.names(content["holds"]) | (rules.names(content["in_part"]) if "in_part" in content else set())
    assert not read & row.counted.keys() or any("reduced" in row.counted[name] for name in read & row.counted.keys())


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_figures_decide(row: verdicts.Row) -> None:
    """With one or two other figures the verdict is another: none is one by hand. And the second rule is the weaker."""
    one = [{name: other} for name, figure in row.figures.items() for other in others(figure)]
    two = [first | second for first in one for second in one] if len(one) < 200 else []
    assert any(row.verdict(row.figures | other) != row.verdict(row.figures) for other in (*one, *two))
    if "in_part" in row.content and row.verdict(row.figures) == rules.HOLDS:
        assert rules.true(row.content["in_part"], row.figures)


def test_commits_are_there() -> None:
    """By their subjects, where the history is."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(verdicts.TOP), *words], capture_output=True, text=True,
                              check=False).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("no history here")
    assert not {row.content["commit"] for row in ROWS} - set(git("log", "--format=%s").splitlines())


def test_every_exhibit_has_a_row() -> None:
    wanted = {f"hoard-{name}" for name in hoard.EXHIBITS} | {f"scalloc-figure{name}" for name in scalloc.FIGURES}
    wanted |= {f"cif-figure{name}" for name in cif.FIGURES.split(",")} | {f"hoard-figure3{part}" for part in "abce"}
    assert not {name for name in wanted if not any(one.startswith(name) for one in IDS)}
    assert {row.content["table"] for row in ROWS} == verdicts.PAGES.keys() - {"curves"}


def test_no_verdict_stands_in_code() -> None:
    for path in (verdicts.TOP / "hw/report/claims.py", HERE / "verdicts.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Constant) and isinstance(call.value, str):
                assert call.value not in rules.WORDS[1:]
    calls = [one for one in ast.walk(ast.parse((verdicts.TOP / "hw/report/claims.py").read_text()))
             if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "claim"]
    assert len(calls) > 15
    assert not [value for one in calls for value in (*one.args, *(word.value for word in one.keywords))
                if isinstance(value, ast.Constant) and not isinstance(value.value, str)]
    assert not any(f'"{word}' in verdicts.FILE.read_text() for word in rules.WORDS[1:])


@pytest.mark.parametrize(("rule", "said"), [
    ("1 < 2", "compares no figure"), ("speed", "compares no figure"), ("speed[", "was never closed"),
    ("speed.real > 1", "Attribute is not for rules"), ("[speed] > 1", "List is not for rules"),
    ("other > 1", "no figure other"), ("speed[3] > 1", "KeyError"), ("most(speed) > 1 / 0", "ZeroDivisionError"),
    ("open(speed) > 1", "no figure open"), ("True", "compares no figure")])
def test_rules_that_are_none(rule: str, said: str) -> None:
    with pytest.raises(rules.RuleError, match=said):
        rules.true(rule, {"speed": {2: 1.5}})


def test_rules() -> None:
    figures = {"speed": {2: 2.0, 4: 3.0, 8: 2.0}, "pair": [1.0, 2.0], "one": 0.5}
    for rule in ("efficiency(speed, 4) == 0.75", "efficiency(speed) == 0.25", "most(speed, pair, one) == 3",
                 "least(speed, pair, one) == 0.5",
                 "most(upto(speed, 2)) == 2 and least(upto(speed, 4), pair[1]) == 2",
                 "abs(one - 1) <= 0.5 and not pair[0] > 1"):
        assert rules.true(rule, figures), rule
    assert rules.verdict("one > 1", "one > 0", figures) == rules.IN_PART
    assert rules.verdict("one > 1", None, figures) == rules.verdict("one > 1", "one > 2", figures) == rules.NOT
    assert rules.verdict("one < 1", None, figures) == rules.HOLDS


def test_a_verdict_that_turns_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = [one for one in ROWS if one.id == "scalloc-figure13-time"]
    for slower, status in ((2.0, 0), (1.0, 1)):
        monkeypatch.setitem(counted.MEASURES, "slower", lambda place, spec, slower=slower: {32: slower})
        assert verdicts.check([row], Path("none")) == status
    assert "holds; now it does not hold" in capsys.readouterr().out
    with pytest.raises(rules.RuleError, match="no row is counted"):
        verdicts.check([], Path("none"))


def test_a_row_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps({"rows": [ROWS[0].content, ROWS[0].content]}))
    with pytest.raises(rules.RuleError, match="twice"):
        verdicts.read(path)


def test_the_file_is_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    verdicts.write(ROWS, path)
    assert path.read_text() == verdicts.FILE.read_text()
