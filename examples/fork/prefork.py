# SPDX-License-Identifier: MIT
"""A server that forks when its data is loaded: what a child has for itself, and what it shares with its parent."""

import os
import re
import time


def resident(kind: str) -> float:
    """MiB of this process."""
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(size) for size in re.findall(rf"{kind}\w*: +(\d+) kB", file.read())) / 1024


rows = [str(number) * 10 for number in range(300_000)]
child = os.fork()
if child == 0:
    answers = [len(str(number)) for number in range(10_000)]
    time.sleep(0.1)
    print(f"child: {resident('Private_Dirty'):.1f} MiB of its own, {resident('Shared'):.0f} MiB shared", flush=True)
    os._exit(0)
os.waitpid(child, 0)
