# SPDX-License-Identifier: MIT
"""Who holds the blocks that keep half-empty spans: live call sites whose blocks are of the size class in question."""

from __future__ import annotations

from dataclasses import dataclass

from coffer.heap.owners import PROGRAM
from coffer.heap.sites import Site, sites
from coffer.heap.stacks import Heap, Sum

MOST = 3


@dataclass(frozen=True)
class Survivor:
    site: Site
    sum: Sum


def class_of(size: float, classes: list[int]) -> int:
    """The block size that serves so many bytes; 0: none, it is a large block."""
    return next((block for block in classes if block >= size), 0)


def survivors(heap: Heap, fullest: int | None, classes: list[int]) -> list[Survivor]:
    """With most live bytes first. A stack whose blocks are of several sizes is known by their mean."""
    if fullest is None:
        return []
    ordered = sorted(set(classes))

    def measure(stack) -> Sum:  # noqa: ANN001
        if stack.live.blocks < 0.5:
            return Sum()
        of = class_of(stack.live.bytes / stack.live.blocks, ordered)
        return stack.live if (of == fullest if fullest else of) else Sum()

    return [Survivor(site, site.sum) for site in sites(heap, measure, PROGRAM)[:MOST]]
