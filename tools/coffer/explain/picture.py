# SPDX-License-Identifier: MIT
"""The page of coffer explain: resident memory by reason, as areas, and what would give each back."""

from __future__ import annotations

from pathlib import Path

from coffer.explain.reasons import Explanation
from coffer.files import whole
from coffer.page import render
from coffer.page.forest import plain
from coffer.trace.tables import size

HERE = Path(__file__).resolve().parent
LEAST = 0.001  # of what is resident: smaller areas cannot be seen


def areas(found: Explanation) -> dict[str, list]:
    """As plotly takes a hierarchy: all that is resident, the reasons, and the parts of these."""
    made: dict[str, list] = {"ids": ["rss"], "parents": [""], "labels": [f"resident: {size(found.rss)}"],
                             "values": [found.rss], "release": [""], "kinds": ["root"]}

    def put(identity: str, parent: str, name: str, count: int, release: str, kind: str) -> None:
        for key, value in (("ids", identity), ("parents", parent), ("labels", f"{plain(name)}: {size(count)}"),
                           ("values", count), ("release", plain(release)), ("kinds", kind)):
            made[key].append(value)

    for one in found.reasons:
        if one.bytes < LEAST * found.rss:
            continue
        put(one.key, "rss", one.name, one.bytes, one.release, one.key)
        for number, (name, count) in enumerate(one.parts):
            if count >= LEAST * found.rss:
                put(f"{one.key}.{number}", one.key, name, count, one.release, one.key)
    return made


def write(path: Path, found: Explanation, verdicts: list[str], title: str) -> None:
    rows = [(size(one.bytes), f"{one.bytes / max(1, found.rss):.1%}", one.name, one.detail, one.release)
            for one in found.reasons]
    text = render.page(
        HERE / "page.html.j2", program=f"{found.program} ({found.process})", title=title, verdicts=verdicts,
        notes=found.notes, rows=rows, page_tables=size(found.page_tables), data=render.safe(areas(found)),
        tiles=[(size(found.rss), "resident"), (size(found.live), "of it in live blocks"),
               (size(found.above), "above that")])
    with whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
