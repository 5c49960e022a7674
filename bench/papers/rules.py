# SPDX-License-Identifier: MIT
"""Rules that decide whether a claim holds: expressions over the figures that were measured. A verdict is never written
down; it is what the rule makes of the figures."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

HOLDS, IN_PART, NOT = WORDS = ("holds", "holds in part", "does not hold")
Figure = float | Sequence[float] | Mapping[Any, float]


class RuleError(Exception):
    pass


def values(figure: Figure) -> list[float]:
    if isinstance(figure, Mapping):
        return list(figure.values())
    return list(figure) if isinstance(figure, Sequence) else [figure]


def least(*figures: Figure) -> float:
    return min(value for figure in figures for value in values(figure))


def most(*figures: Figure) -> float:
    return max(value for figure in figures for value in values(figure))


def upto(curve: Mapping[int, float], cores: float) -> dict[int, float]:
    """As far as the paper's machine goes."""
    return {count: value for count, value in curve.items() if count <= cores}


def efficiency(curve: Mapping[int, float], cores: float = math.inf) -> float:
    """Of speed-ups by cores: the least share of its cores that any of them reaches. Some must be meant."""
    return min(value / count for count, value in upto(curve, cores).items())


FUNCTIONS: dict[str, Callable[..., Any]] = {one.__name__: one for one in (least, most, upto, efficiency, abs)}
_ALLOWED = (ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.Lt, ast.LtE,
            ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Call, ast.Name,
            ast.Load, ast.Subscript, ast.Constant)


def names(rule: str) -> set[str]:
    """The figures that a rule reads. A rule that reads none would be a verdict by hand."""
    try:
        tree = ast.parse(rule, mode="eval")
    except SyntaxError as error:
        raise RuleError(f"{rule}: {error.msg}") from error
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise RuleError(f"{rule}: {type(node).__name__} is not for rules")
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - FUNCTIONS.keys()
    if not found or not any(isinstance(node, ast.Compare) for node in ast.walk(tree)):
        raise RuleError(f"{rule}: it compares no figure")
    return found


def true(rule: str, figures: Mapping[str, Figure]) -> bool:
    if missing := names(rule) - figures.keys():
        raise RuleError(f"{rule}: no figure {', '.join(sorted(missing))}")
    try:
        # Nothing but the nodes above gets here, with no builtin in reach.
        return bool(eval(compile(ast.parse(rule, mode="eval"), "rule", "eval"), {"__builtins__": {}} | FUNCTIONS,
                         dict(figures)))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise RuleError(f"{rule}: {type(error).__name__}: {error}") from error


def verdict(holds: str, in_part: str | None, figures: Mapping[str, Figure]) -> str:
    """The second rule is the weaker one, for what holds in part; many claims have none."""
    if true(holds, figures):
        return HOLDS
    return IN_PART if in_part and true(in_part, figures) else NOT
