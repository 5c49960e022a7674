# SPDX-License-Identifier: MIT
"""What is known about tests that fail: reasons.toml, beside this package."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from outside.results import Outcome

OURS = "coffer"
FILE = Path(__file__).resolve().parents[1] / "reasons.toml"


@dataclass(frozen=True)
class Reason:
    suite: str
    test: str  # a name, or a pattern with *
    why: str
    allocator: str = OURS

    def is_of(self, outcome: Outcome) -> bool:
        """A pattern stands for the others: Coffer is excused by its name alone."""
        if OURS in (outcome.allocator, self.allocator) and outcome.allocator != self.allocator:
            return False
        return (outcome.suite == self.suite and fnmatchcase(outcome.test, self.test)
                and fnmatchcase(outcome.allocator, self.allocator))


def load(path: Path = FILE) -> list[Reason]:
    return [Reason(**entry) for entry in tomllib.loads(path.read_text()).get("reason", [])]


def of(outcome: Outcome, reasons: list[Reason]) -> str:
    """Empty where nothing is known."""
    return next((reason.why for reason in reasons if reason.is_of(outcome)), "")


def stale(outcomes: list[Outcome], reasons: list[Reason], allocator: str) -> list[Reason]:
    """Those of this allocator and of tests that were run and did not fail: each has to go. Of suites that were not run
    nothing is said."""
    ran = {outcome.suite for outcome in outcomes if outcome.allocator == allocator and outcome.outcome != "not built"}
    failures = [outcome for outcome in outcomes if outcome.allocator == allocator and outcome.is_failure]
    return [reason for reason in reasons if reason.allocator == allocator and reason.suite in ran
            and not any(reason.is_of(failure) for failure in failures)]
