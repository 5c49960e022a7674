# SPDX-License-Identifier: MIT
"""What the commands write besides the first screen."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from coffer.errors import CofferError
from coffer.files import check_inputs
from coffer.heap import exports, picture, show, sites, stacks
from coffer.profile import proto, symbols

Views = list[tuple[str, stacks.Heap, sites.Measure]]


@dataclass(frozen=True)
class Files:
    profile: Path | None
    html: Path | None
    speedscope: Path | None
    collapsed: Path | None

    def all(self) -> list[Path]:
        return [one for one in (self.profile, self.html, self.speedscope, self.collapsed) if one is not None]

    def check(self, inputs: list[Path]) -> None:
        """Before anything is run."""
        for one in self.all():
            if one.is_dir() or not one.absolute().parent.is_dir():
                raise CofferError(f"{one}: {'is a directory' if one.is_dir() else 'no such directory'}")
            check_inputs(one, inputs)

    def write(self, last: proto.Profile, verdicts: list[str], views: Views, moments: list[stacks.Heap]) -> None:
        """The first of the views is the one that was asked for."""
        _, heap, measure = views[0]
        if self.profile is not None:
            proto.write(self.profile, proto.with_functions(last, symbols.names_of(last)))
        if self.html is not None:
            picture.write(self.html, heap, verdicts, views, moments)
        if self.speedscope is not None:
            exports.write_speedscope(self.speedscope, heap, views)
        if self.collapsed is not None:
            exports.write_collapsed(self.collapsed, heap, measure)
        for one in self.all():
            print(f"coffer: {one}", file=sys.stderr)


def print_json(view: str, verdicts: list[str], heap: stacks.Heap, found: list[sites.Site], apart: dict[str, stacks.Sum],
               top: int, depth: int) -> None:
    total = sites.whole(found)
    print(json.dumps({"program": heap.program, "view": view, "verdicts": verdicts, "period": heap.period,
                      "peak_ns": heap.peak_ns, "bytes": round(total.bytes), "blocks": round(total.blocks),
                      "error": round(stacks.error_of(total), 4),
                      "apart": {group: {"bytes": round(one.bytes), "blocks": round(one.blocks)}
                                for group, one in apart.items()},
                      "sites": show.as_json(found[:top], depth)}))
