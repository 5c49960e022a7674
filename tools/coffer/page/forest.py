# SPDX-License-Identifier: MIT
"""Call stacks as one tree, from the outermost functions on, and what each stack has in each view. The page adds up what
is below a function itself, for it alone knows which stretch of time is looked at."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field

from coffer.heap.sites import NO_STACK
from coffer.heap.stacks import Place
from coffer.trace.symbols import without_arguments


def plain(text: str) -> str:
    """plotly takes some tags in its texts for its own."""
    return html.escape(text, quote=False)


@dataclass
class Forest:
    """Node 0 is the root. Whoever calls has a lower number than what is called."""

    parents: list[int] = field(default_factory=lambda: [-1])
    names: list[str] = field(default_factory=lambda: [""])
    labels: list[str] = field(default_factory=lambda: [""])  # shorter
    sources: list[str] = field(default_factory=lambda: [""])
    modules: list[str] = field(default_factory=lambda: [""])
    known: dict[tuple[int, str, str, int], int] = field(default_factory=dict)

    def add(self, innermost_first: Iterable[Place]) -> int:
        """The node of the innermost function."""
        node = 0
        for place in tuple(innermost_first)[::-1] or (NO_STACK,):
            key = (node, place.function, place.file or place.module, place.line)
            if key not in self.known:
                self.known[key] = len(self.parents)
                self.parents.append(node)
                self.names.append(plain(place.function))
                self.labels.append(plain(without_arguments(place.function)))
                self.sources.append(plain(place.source))
                self.modules.append(plain(place.module))
            node = self.known[key]
        return node

    def data(self) -> dict[str, list]:
        return {"parents": self.parents, "names": self.names, "sources": self.sources, "modules": self.modules,
                "labels": self.labels}
