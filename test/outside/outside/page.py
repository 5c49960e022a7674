# SPDX-License-Identifier: MIT
"""docs/results/outside.md: what was found, by suite and by allocator, and each failure under Coffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from outside import reasons
from outside.reasons import OURS, Reason
from outside.results import Outcome, Results, SuiteFound

PLAIN = "glibc"


def cell(text: str) -> str:
    """Text that stays in its cell and is shown as it is."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def tally(outcomes: list[Outcome], suite: str, allocator: str) -> str:
    """passed / failed / not applicable, of one suite under one allocator."""
    counts = Counter(outcome.outcome for outcome in outcomes
                     if outcome.suite == suite and outcome.allocator == allocator)
    if not counts:
        return "not run"
    failed = counts["failed"] + counts["crashed"] + counts["hung"]
    return f"{counts['passed']} / {failed} / {counts['not applicable'] + counts['not built']}"


def columns(results: Results) -> list[str]:
    """The allocators: glibc first, Coffer last."""
    return sorted(results.run.versions, key=lambda name: (name == OURS, name != PLAIN, name))


def versions(results: Results) -> Iterator[str]:
    yield "| allocator | version |"
    yield "|---|---|"
    for name in columns(results):
        yield f"| {name} | {cell(results.run.versions[name])} |"
    for name, why in results.run.missing.items():
        yield f"| {name} | not run: {cell(why)} |"


def summary(results: Results) -> Iterator[str]:
    names = columns(results)
    yield f"| suite | {' | '.join(names)} |"
    yield f"|---|{'---:|' * len(names)}"
    for suite in results.suites:
        if suite.trouble:
            yield f"| {suite.name} | {' | '.join('not run' for _ in names)} |"
            continue
        yield f"| {suite.name} | {' | '.join(tally(results.outcomes, suite.name, name) for name in names)} |"


def by_test(results: Results) -> dict[tuple[str, str], dict[str, Outcome]]:
    found: dict[tuple[str, str], dict[str, Outcome]] = {}
    for outcome in results.outcomes:
        found.setdefault((outcome.suite, outcome.test), {})[outcome.allocator] = outcome
    return found


def words(outcome: Outcome) -> str:
    return outcome.outcome + (f": {cell(outcome.detail)}" if outcome.detail else "")


def our_failures(results: Results, known: list[Reason]) -> Iterator[str]:
    rows = [row for row in by_test(results).values() if OURS in row and row[OURS].is_failure]
    if not rows:
        yield "None."
        return
    yield "| suite | test | under Coffer | fails also under | why |"
    yield "|---|---|---|---|---|"
    for row in rows:
        ours = row[OURS]
        others = [name for name in columns(results) if name in row and name != OURS and row[name].is_failure]
        why = reasons.of(ours, known) or "unknown"
        yield f"| {ours.suite} | {cell(ours.test)} | {words(ours)} | {', '.join(others) or 'no other'} | {cell(why)} |"


def their_failures(results: Results, known: list[Reason]) -> Iterator[str]:
    rows = [row for row in by_test(results).values()
            if any(outcome.is_failure for name, outcome in row.items() if name != OURS)]
    if not rows:
        yield "None."
        return
    yield "| suite | test | under | how | why |"
    yield "|---|---|---|---|---|"
    for row in rows:
        same: dict[tuple[str, str], list[str]] = {}
        for name in columns(results):
            if name in row and name != OURS and row[name].is_failure:
                same.setdefault((words(row[name]), cell(reasons.of(row[name], known))), []).append(name)
        first = next(iter(row.values()))
        for (how, why), names in same.items():
            yield f"| {first.suite} | {cell(first.test)} | {', '.join(names)} | {how} | {why} |"


def unapplied(results: Results, suite: SuiteFound) -> Iterator[str]:
    for test, why in suite.left_out.items():
        yield f"| {suite.name} | {cell(test)} | {cell(why)} |"
    seen: dict[str, str] = {}
    for outcome in results.outcomes:
        if outcome.suite == suite.name and outcome.outcome in ("not applicable", "not built"):
            seen.setdefault(outcome.test, f"{outcome.outcome} under {outcome.allocator}: {outcome.detail}")
    for test, why in seen.items():
        yield f"| {suite.name} | {cell(test)} | {cell(why)} |"
    for test in suite.unknown:
        yield f"| {suite.name} | {cell(test)} | new in this version, not looked at yet |"


def write(results: Results, known: list[Reason], without: dict[str, str]) -> str:
    """`without`: packages that were looked at and have nothing to run."""
    run = results.run
    text = [
        "# Outside suites", "",
        "Written by `make outside`, and not by hand. The tests of malloc that packages of Debian and of crates.io "
        "bring, each run over each allocator by `LD_PRELOAD`; what a suite is, and how to add one: "
        f"[test/outside](../../test/outside/README.md). {run.day}, {run.machine}.", "",
        *versions(results), "",
        "Passed / failed / not applicable or not built. A failure was tried three times, a hang once.", "",
        *summary(results), "",
        "## What fails under Coffer", "", *our_failures(results, known), "",
        "## What fails under the others", "", *their_failures(results, known), "",
        "## Where the suites come from", "",
        "| suite | package | version | how it is built and run |", "|---|---|---|---|",
    ]
    for suite in results.suites:
        how = f"not run: {suite.trouble}" if suite.trouble else suite.how
        text.append(f"| {suite.name} | {cell(suite.package)} | {cell(suite.version)} | {cell(how)} |")
    text += ["", "Looked at, with nothing to run:", "", "| package | why |", "|---|---|"]
    text += [f"| {cell(name)} | {cell(why)} |" for name, why in without.items()]
    text += ["", "## What is left out", "", "| suite | test | why |", "|---|---|---|"]
    for suite in results.suites:
        text += unapplied(results, suite)
    return "\n".join(text) + "\n"
