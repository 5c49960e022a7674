# SPDX-License-Identifier: MIT
"""Resident memory by reason. The parts add up to what the kernel says; page tables come on top."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coffer.explain import mappings
from coffer.heap.show import count
from coffer.live.page import STATES, Reading
from coffer.trace.tables import size

TRIM = "malloc_trim(0)"
OWNED = ("hot", "floating", "reusable", "claimed")  # states of spans that one thread's heap allocates from
MOST_CLASSES = 4


@dataclass
class Reason:
    name: str
    bytes: int
    release: str  # what would give it back
    detail: list[str] = field(default_factory=list)
    is_live: bool = False
    key: str = ""
    parts: list[tuple[str, int]] = field(default_factory=list)  # name and bytes, where it has some


@dataclass
class Explanation:
    program: str
    process: int
    rss: int
    live: int
    reasons: list[Reason]
    page_tables: int
    notes: list[str] = field(default_factory=list)
    fullest: int | None = None  # the class with most free bytes; 0: spans of blocks of any size

    @property
    def above(self) -> int:
        return max(0, self.rss - self.live)


def free_by_class(reading: Reading) -> dict[int, int]:
    """Resident bytes of spans that no live block has, by block size; 0: blocks of any size."""
    absent: dict[int, int] = {}
    for span in reading.spans:
        absent[span["block_bytes"]] = absent.get(span["block_bytes"], 0) + max(0, span["held"] - span["resident"])
    found: dict[int, int] = {}
    for one in reading.classes:
        free = one["held"] - one["live"]
        if free > 0:
            found[one["block_bytes"]] = found.get(one["block_bytes"], 0) + free
    found = {block: max(0, free - absent.get(block, 0)) for block, free in found.items()}
    figures = reading.figures
    if (mixed := figures["mixed_resident"] - figures["mixed_live"]) > 0:
        found[0] = mixed
    return {block: free for block, free in found.items() if free > 0}


def class_name(block: int) -> str:
    return f"of {block:,}-byte blocks" if block else "of blocks of any size"


def of_heaps(reading: Reading) -> float:
    """Of the free bytes in spans that are shown: the part in spans that one thread's heap allocates from."""
    free = {name: 0 for name in STATES}
    for span in reading.spans:
        name = STATES[span["state"]] if span["state"] < len(STATES) else "free"
        free[name] += max(0, span["resident"] - span["live"])
    total = sum(free.values())
    return sum(free[name] for name in OWNED) / total if total else 0.0


def in_spans(reading: Reading, room: int) -> tuple[Reason, int | None]:
    """Free memory inside spans, of which so many bytes at most are resident."""
    found = Reason("free in spans, beside live blocks", 0,
                   f"the next blocks of these sizes use it; whole free pages go by {TRIM}, the rest when the live"
                   " blocks beside it are freed", key="spans")
    by_class = free_by_class(reading)
    counted = sum(by_class.values())
    if room <= 0 or counted <= 0:
        return found, None
    scale = min(1.0, room / counted)
    found.bytes = round(counted * scale)
    largest = sorted(by_class, key=lambda block: -by_class[block])
    found.parts = [(class_name(block), round(by_class[block] * scale)) for block in largest]
    found.detail = [f"{size(by_class[block] * scale)} in spans {class_name(block)}"
                    for block in largest[:MOST_CLASSES]]
    if rest := sum(by_class[block] for block in largest[MOST_CLASSES:]):
        found.detail.append(f"{size(rest * scale)} in spans of {len(largest) - MOST_CLASSES} other sizes")
    if (owned := found.bytes * of_heaps(reading)) >= 1:
        heaps = sum(one["attached"] for one in reading.heaps)
        whose = "the only heap of a thread" if heaps == 1 else f"only one of {count(heaps, 'heap')} of threads"
        found.detail.append(f"{size(owned)} of all this in spans that {whose} allocates from; slack:0 makes it less")
    return found, largest[0]


def explain(reading: Reading, maps: list[mappings.Mapping], process: int, page_tables: int) -> Explanation:
    figures = reading.figures
    kinds = mappings.sums(maps, [span["address"] for span in reading.spans])
    rss = sum(one.rss for one in maps)
    blocks = kinds[mappings.BLOCKS]
    # Pages of live large blocks that were never written to are live and take no memory.
    untouched = max(0, figures["resident"] - blocks)
    live = min(blocks, max(0, figures["live"] - untouched))
    free_slots = min(figures["free_resident"], blocks - live)
    spans, fullest = in_spans(reading, blocks - live - free_slots)
    rest = blocks - live - free_slots - spans.bytes
    reasons = [
        Reason("live blocks, rounded up to their classes", live,
               "goes when the program frees it; coffer heap says who holds it",
               [f"{size(figures['large'])} of it in {count(figures['large_blocks'])} over 64 KiB"]
               if figures["large_blocks"] else [], is_live=True, key="live"),
        spans,
        Reason("free, kept for the next blocks", free_slots,
               f"goes when it was free for a second, but for what free_limit keeps; at once by {TRIM}", key="free"),
        Reason("behind large blocks, and what huge pages brought", rest,
               "goes with the large blocks that it lies behind; huge:never brings none", key="tails"),
        Reason("the allocator's records", kinds[mappings.METADATA], "stays, and serves the next blocks",
               key="metadata"),
        Reason("stacks of threads", kinds[mappings.STACKS], "goes when the threads end", key="stacks"),
        Reason("program and libraries, mapped files", kinds[mappings.FILES],
               "clean pages go when the kernel is short of memory", key="files"),
        Reason("shared memory", kinds[mappings.SHARED], "goes when the program unmaps it", key="shared"),
        Reason("the heap by brk", kinds[mappings.BRK], "is not this allocator's", key="brk"),
        Reason("other mappings, of the program or of other allocators", kinds[mappings.OTHERS],
               "is not this allocator's: goes when it is unmapped by those who mapped it", key="others"),
    ]
    notes = []
    if untouched > 64 * 1024:
        notes.append(f"Of {size(figures['live'])} live {size(untouched)} were never written to, or are swapped out, and"
                     " take no memory.")
    if huge := sum(one.huge for one in maps):
        notes.append(f"{size(huge)} are in huge pages.")
    if reading.is_stale:
        notes.append(f"The process did not answer: the allocator's figures are {reading.age:.0f} s old.")
    if figures["spans"] > len(reading.spans):
        notes.append(f"By owner: from {len(reading.spans)} of {figures['spans']} spans, those with most free memory.")
    shown = [one for one in reasons if one.bytes > 0 or one.is_live]
    return Explanation(reading.program, process, rss, live, shown, page_tables, notes, fullest)


def verdict(found: Explanation) -> str:
    """What it comes to, in a sentence."""
    above = sorted((one for one in found.reasons if not one.is_live), key=lambda one: -one.bytes)
    times = f", {found.rss / found.live:.1f} times" if found.live else ", above"
    text = f"{size(found.rss)} are resident{times} the {size(found.live)} of live blocks"
    if not above:
        return text + "."
    first = above[0]
    where = ""
    if first.key == "spans" and found.fullest is not None:
        where = f", most {class_name(found.fullest)}"
    share = first.bytes / max(1, found.above)
    return f"{text}: {size(first.bytes)} ({share:.0%} of the difference) are {first.name}{where}."


def as_json(found: Explanation, text: str, survivors: list[dict[str, Any]]) -> dict[str, Any]:
    return {"program": found.program, "pid": found.process, "verdict": text, "rss": found.rss, "live": found.live,
            "page_tables": found.page_tables, "notes": found.notes, "fullest_class": found.fullest,
            "reasons": [{"key": one.key, "name": one.name, "bytes": one.bytes, "detail": one.detail,
                         "parts": [{"name": name, "bytes": part} for name, part in one.parts],
                         "release": one.release} for one in found.reasons],
            "survivors": survivors}
