# SPDX-License-Identifier: MIT
"""What there is to say of a process, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from coffer.heap import show, sites, stacks, taken
from coffer.trace.tables import duration

NOTHING_LIVE = "Nothing that was sampled is live."


@dataclass
class Seen:
    """What was taken, with names."""

    last: stacks.Heap
    moments: list[stacks.Heap]
    is_end: bool  # the last one is from the program's end

    def growing(self) -> list[sites.Growth]:
        return sites.growing(self.moments, self.is_end)


def with_names(found: taken.Taken) -> Seen:
    last, *moments = stacks.named([found.last, *found.moments])
    return Seen(last, moments, found.end is not None and found.is_program)


def nothing(heap: stacks.Heap, of_all: str, of_samples: str) -> str:
    return of_all if stacks.sees_every_block(heap.period) else of_samples


def verdicts_of(seen: Seen, is_peak_first: bool) -> list[str]:
    """What there is to say, in the order of what people ask."""
    growing = seen.growing()
    if seen.is_end:
        what, none = "left at the end", nothing(seen.last, "Nothing is left at the end.",
                                                "Nothing that was sampled is left at the end.")
    else:
        what, none = "live", nothing(seen.last, "Nothing that the program allocated is live.", NOTHING_LIVE)
    live = show.sentence(sites.sites(seen.last, sites.LIVE), what, none)
    result = [show.growth_sentence(growing)] if growing else []
    if seen.last.peak_ns is None:
        result.append(live)
    else:
        after = f"{duration(seen.last.peak_ns)} after {'the start' if seen.is_end else 'sampling began'}"
        peak = show.sentence(sites.sites(seen.last, sites.PEAK), f"held at the highest moment, {after}",
                             nothing(seen.last, "Nothing was ever held.", "Nothing was sampled."))
        # Of a process that runs the first question is what it holds now.
        result = [peak, *result, live] if is_peak_first else [live, *result, peak]
    return result + show.apart(seen.last, sites.LIVE, "kept")
