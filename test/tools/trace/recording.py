# SPDX-License-Identifier: MIT
"""What the tests of coffer record share."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from coffer import places

BUILD = places.build_dir()
COMMAND = BUILD / "bin" / "coffer"
SUBJECT = BUILD / "test" / "tools" / "trace" / "record_subject"
SUBJECT_CPP = BUILD / "test" / "tools" / "trace" / "record_subject_cpp"
UNWIND_SUBJECT = BUILD / "test" / "tools" / "trace" / "record_unwind_subject"
UNWIND_LIBRARY = UNWIND_SUBJECT.with_name("librecord_unwind_library.so")
BUMP = BUILD / "test" / "tools" / "trace" / "libbump.so"

# The system's Python has no numpy; the command's own has.
READ = """
import json, sys
from coffer.trace.reader import Op, Trace
import numpy as np
with Trace(sys.argv[1]) as trace:
    operations, sizes, stacks, gaps, lost = {}, {}, {}, [], {}
    for events in trace:
        for op, count in zip(*np.unique(events["op"], return_counts=True)):
            operations[Op(op).name] = operations.get(Op(op).name, 0) + int(count)
        asked = events[np.isin(events["op"], (0, 1, 2)) & (events["flags"] == 0)]
        for size, count in zip(*np.unique(asked["size"], return_counts=True)):
            sizes[int(size)] = sizes.get(int(size), 0) + int(count)
        for event in events[events["op"] == Op.LOST]:
            lost[int(event["detail"])] = lost.get(int(event["detail"]), 0) + int(event["size"])
        gaps += [(int(event["thread"]), int(event["size"]), int(event["instructions"]))
                 for event in events[(events["flags"] & 8 != 0) & (events["op"] <= 3)]]
        for event in asked[asked["stack"] != 0]:
            stacks[int(event["size"])] = int(event["stack"])
    print(json.dumps({"operations": operations, "sizes": sizes, "of_size": stacks, "gaps": gaps, "lost": lost,
                      **trace.describe()}))
"""


def read(path: Path) -> dict:
    done = subprocess.run([BUILD / "venv" / "bin" / "python", "-B", "-c", READ, path], capture_output=True, text=True,
                          env={**os.environ, "COFFER_BUILD_DIR": str(BUILD),
                               "PYTHONPATH": str(Path(places.__file__).parents[1])})
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout)
    trace["sizes"] = {int(size): count for size, count in trace["sizes"].items()}
    trace["of_size"] = {int(size): stack for size, stack in trace["of_size"].items()}
    return trace


def command(trace: Path, *arguments: object) -> list[str]:
    return [str(COMMAND), "record", "-o", str(trace), *map(str, arguments)]


def record(trace: Path, *arguments: object, status: int = 0, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(trace, *arguments), capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def assert_whole(trace: dict) -> None:
    """Nothing lost, and every block of a known history."""
    assert trace["complete"] and trace["shortfall"] == ""
    assert [trace["summary"][name] for name in ("lost", "unknown_frees", "implied_frees")] == [0, 0, 0]
