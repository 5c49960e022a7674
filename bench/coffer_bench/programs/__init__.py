# SPDX-License-Identifier: MIT
"""Real programs as workloads: each has inputs that are made once, a run under an allocator, and a check of what it
printed or wrote, which must be the same under every allocator."""

from coffer_bench.programs.base import Program
from coffer_bench.programs.batch import BATCH
from coffer_bench.programs.servers import SERVERS

PROGRAMS: list[Program] = [*SERVERS, *BATCH]
