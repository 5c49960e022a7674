# SPDX-License-Identifier: MIT
"""Latencies of requests as histograms of microseconds, and what the load generators print of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from coffer_bench.errors import BenchError
from hdrh.histogram import HdrHistogram

# Of a microsecond to a minute, to three digits.
LEAST_US, MOST_US, DIGITS = 1, 60_000_000, 3
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
# What a verdict looks at. The maximum is one request of a turn: it is shown, and judged by nobody.
JUDGED = ("p99", "p99.9")
# A percentile of fewer requests than this beyond it is that of a few.
BEYOND = 10


def histogram(values: Iterable[tuple[float, int]] = ()) -> HdrHistogram:
    """Of microseconds and how often each came."""
    made = HdrHistogram(LEAST_US, MOST_US, DIGITS)
    for value, count in values:
        if count > 0:
            made.record_value(min(MOST_US, max(LEAST_US, round(value))), count)
    return made


def percentiles(found: HdrHistogram) -> dict[str, float]:
    return {name: float(found.get_value_at_percentile(value)) for name, value in PERCENTILES.items()}


def is_shown(count: int, name: str) -> bool:
    """Whether so many requests have this percentile."""
    return name == "max" and count > 0 or count * (100 - PERCENTILES[name]) / 100 >= BEYOND - 1e-6


def encoded(found: HdrHistogram) -> str:
    return found.encode().decode()


def decoded(text: str) -> HdrHistogram:
    return HdrHistogram.decode(text.encode())


WRK_VALUE = re.compile(r"^latency (\d+) (\d+)$", re.MULTILINE)
WRK_ERRORS = re.compile(r"^errors connect=(\d+) read=(\d+) write=(\d+) status=(\d+) timeout=(\d+)$", re.MULTILINE)


def of_wrk(text: str) -> HdrHistogram:
    """What services/wrk.lua prints."""
    errors = WRK_ERRORS.search(text)
    if not errors:
        raise BenchError(f"wrk prints {text[-500:]!r}")
    if any(map(int, errors.groups())):
        raise BenchError(f"wrk: {errors[0]}")
    return some(histogram((float(value), int(count)) for value, count in WRK_VALUE.findall(text)), "wrk")


SYSBENCH_VALUE = re.compile(r"^ *([\d.]+) \|\**\s+(\d+)$", re.MULTILINE)


def of_sysbench(text: str) -> HdrHistogram:
    """The table of --histogram, in milliseconds."""
    return some(histogram((float(value) * 1000, int(count)) for value, count in SYSBENCH_VALUE.findall(text)),
                "sysbench")


def of_pgbench(directory: Path, prefix: str) -> HdrHistogram:
    """The logs of pgbench --log: client, transaction, microseconds, script, time."""
    values = []
    for path in directory.glob(f"{prefix}.*"):
        for line in path.read_text().splitlines():
            fields = line.split()
            if len(fields) < 6 or not fields[2].isdigit():
                raise BenchError(f"pgbench writes {line!r}")
            values.append((float(fields[2]), 1))
    return some(histogram(values), "pgbench")


REDIS_POINT = re.compile(r"^([\d.]+)% <= ([\d.]+) milliseconds \(cumulative count (\d+)\)$")


def redis_tests(text: str) -> Iterator[list[tuple[float, int]]]:
    """Of each command that redis-benchmark ran: microseconds, and how many requests took no more."""
    points: list[tuple[float, int]] = []
    for line in text.replace("\r", "\n").splitlines():
        if line.startswith("====== "):
            if points:
                yield points
            points = []
        elif match := REDIS_POINT.match(line.strip()):
            points.append((float(match[2]) * 1000, int(match[3])))
    if points:
        yield points


def of_redis_benchmark(text: str) -> HdrHistogram:
    """It prints points of the distribution: at each half of what is left, and at each tenth of a millisecond. Requests
    between two points count as the upper one."""
    total = histogram()
    for points in redis_tests(text):
        below = 0
        for value, count in sorted(points):
            if count > below:
                total.record_value(max(LEAST_US, round(value)), count - below)
                below = count
    return some(total, "redis-benchmark")


def some(found: HdrHistogram, generator: str) -> HdrHistogram:
    if found.get_total_count() == 0:
        raise BenchError(f"{generator} tells of no request")
    return found
