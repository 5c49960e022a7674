# SPDX-License-Identifier: MIT
"""Figures of processes as metrics of Prometheus: for `coffer stat --prometheus` and `coffer serve`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coffer.live.page import Reading

LABELS = ["pid", "program"]
Readings = list[tuple[int, Reading]]  # by the number of the process

# Name, of figures, what it is. The names of counters get _total.
GAUGES = [
    ("live_bytes", "live", "Usable bytes of blocks that the program holds."),
    ("held_bytes", "held", "Bytes of spans and large blocks."),
    ("peak_held_bytes", "peak_held", "The most that was held."),
    ("resident_bytes", "resident", "Bytes of blocks' memory that may be backed by physical memory."),
    ("free_resident_bytes", "free_resident", "The part of resident that belongs to no span and no block."),
    ("bound_bytes", "bound", "What held, free and metadata together are expected to stay within."),
    ("limit_bytes", "limit", "The limit on what may be resident; 0: none."),
    ("committed_bytes", "committed", "Bytes of the arenas made writable."),
    ("metadata_bytes", "metadata", "Bytes of metadata made writable."),
    ("large_bytes", "large", "Bytes of live blocks over 64 KiB."),
    ("large_blocks", "large_blocks", "Live blocks over 64 KiB."),
    ("mixed_held_bytes", "mixed_held", "Bytes of spans with blocks of any size."),
    ("heaps", "heaps", "Heaps that threads use."),
    ("spans", "spans", "Spans in use."),
]
COUNTERS = [
    ("allocated_bytes", "allocated_bytes", "Bytes allocated since the page was asked for."),
    ("allocated_blocks", "allocated_blocks", "Blocks allocated since the page was asked for."),
    ("purges", "purges", "Calls that gave pages back."),
    ("purged_bytes", "purged_bytes", "Bytes given back."),
    ("system_calls", "system_calls", "Calls to the kernel for memory."),
]
CLASSES = [
    ("class_held_bytes", "held", "Bytes of the spans of a size class."),
    ("class_live_bytes", "live", "Bytes of the live blocks of a size class."),
]


def kinds(reading: Reading) -> dict[str, tuple[int, int]]:
    """Held and live bytes of each kind of memory; together they are held and live."""
    figures = reading.figures
    large = figures["large"]
    mixed = figures["mixed_held"], figures["mixed_live"]
    return {"classes": (max(0, figures["held"] - mixed[0] - large), max(0, figures["live"] - mixed[1] - large)),
            "mixed": mixed, "large": (large, large)}


def by_class(reading: Reading, field: str) -> dict[int, int]:
    """Several classes may have blocks of one size (twins, which are for alignments)."""
    sums: dict[int, int] = {}
    for one in reading.classes:
        if one["spans"]:
            sums[one["block_bytes"]] = sums.get(one["block_bytes"], 0) + one[field]
    return dict(sorted(sums.items()))


def families(readings: Readings, silent: Iterable[tuple[int, str]] = ()) -> list[Metric]:
    """`silent`: number and program of processes that were meant, too, and show nothing."""
    found: list[Metric] = []

    def gauge(name: str, text: str, more: list[str], values: Callable[[Reading], dict[tuple[str, ...], float]]) -> None:
        family = GaugeMetricFamily(f"coffer_{name}", text, labels=[*LABELS, *more])
        for number, reading in readings:
            for labels, value in values(reading).items():
                family.add_metric([str(number), reading.program, *labels], value)
        found.append(family)

    up = GaugeMetricFamily("coffer_up", "Whether the process shows its figures.", labels=LABELS)
    for number, reading in readings:
        up.add_metric([str(number), reading.program], 1)
    for number, program in silent:
        up.add_metric([str(number), program], 0)
    found.append(up)
    for name, field, text in GAUGES:
        gauge(name, text, [], lambda reading: {(): reading.figures[field]})
    for name, field, text in COUNTERS:
        counter = CounterMetricFamily(f"coffer_{name}", text, labels=LABELS)
        for number, reading in readings:
            counter.add_metric([str(number), reading.program], reading.figures[field])
        found.append(counter)
    gauge("rss_bytes", "Bytes of the whole process that the kernel counts as resident.", [],
          lambda reading: {} if reading.rss is None else {(): reading.rss})
    gauge("figures_age_seconds", "Seconds since the figures that take a walk were taken.", [],
          lambda reading: {(): round(reading.age, 3)})
    for at, name in enumerate(("held", "live")):
        text = f"{name.capitalize()} bytes by kind of memory: in size classes, in spans of any size, large."
        gauge(f"kind_{name}_bytes", text, ["kind"],
              lambda reading: {(kind,): of[at] for kind, of in kinds(reading).items()})
    for name, field, text in CLASSES:
        gauge(name, text, ["block_bytes"],
              lambda reading: {(str(size),): value for size, value in by_class(reading, field).items()})
    return found


class _Given(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self.found = found

    def collect(self) -> list[Metric]:
        return self.found


def encode(found: list[Metric], accept: str = "") -> tuple[bytes, str]:
    """In the form that the header Accept asks for, with that form's name; else as text."""
    encoder, kind = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(found))
    return encoder(registry), kind


def text(readings: Readings) -> str:
    return encode(families(readings))[0].decode()
