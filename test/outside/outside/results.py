# SPDX-License-Identifier: MIT
"""What a run found, as lines of JSON: one of the run, one of each suite, one of each test under each allocator."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Run:
    day: str
    machine: str
    versions: dict[str, str]  # by the allocator's name, in the order of the columns
    missing: dict[str, str] = field(default_factory=dict)  # allocators that could not be had, and why


@dataclass
class SuiteFound:
    name: str
    package: str
    version: str
    how: str
    left_out: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    trouble: str = ""  # why it could not be run at all
    allocators: list[str] = field(default_factory=list)  # that it was run over


@dataclass
class Outcome:
    suite: str
    test: str
    allocator: str
    outcome: str  # passed, failed, crashed, hung, not built, not applicable
    detail: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        return self.outcome in ("failed", "crashed", "hung")


@dataclass
class Results:
    run: Run
    suites: list[SuiteFound]
    outcomes: list[Outcome]


KINDS: dict[str, type[Run] | type[SuiteFound] | type[Outcome]] = {"run": Run, "suite": SuiteFound, "test": Outcome}


def line(record: Run | SuiteFound | Outcome) -> str:
    (kind,) = (name for name, one in KINDS.items() if isinstance(record, one))
    return json.dumps({"kind": kind, **asdict(record)}, ensure_ascii=False) + "\n"


def joined(runs: list[Run]) -> Run:
    """The last one's day, and the allocators of all."""
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    for run in runs:
        versions |= run.versions
        missing |= run.missing
    missing = {name: why for name, why in missing.items() if name not in versions}
    return Run(runs[-1].day, runs[-1].machine, versions, missing)


def read(path: Path) -> Results:
    """Of what was recorded twice, the later counts: a suite that is run again over an allocator replaces its lines."""
    runs: list[Run] = []
    suites: dict[str, SuiteFound] = {}
    outcomes: dict[tuple[str, str, str], Outcome] = {}
    for text in path.read_text().splitlines():
        fields: dict[str, Any] = json.loads(text)
        record = KINDS[fields.pop("kind")](**fields)
        if isinstance(record, Run):
            runs.append(record)
        elif isinstance(record, SuiteFound):
            suites[record.name] = record
            outcomes = {key: value for key, value in outcomes.items()
                        if key[0] != record.name or key[2] not in record.allocators}
        else:
            outcomes[record.suite, record.test, record.allocator] = record
    if not runs:
        raise ValueError(f"{path} has no line of a run")
    return Results(joined(runs), list(suites.values()), list(outcomes.values()))
