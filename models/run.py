#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the models: run.py [--model NAME]... [--deep] [--jobs N].

Every model is explored whole, in each of its configurations, and must have no error; then every fault that is seeded in
it (-D FAULT_...) must be found. The deep configurations take a minute and more each, and are left out without --deep. A
search that did not see every state, a fault that is not found, a fault in a model's text that no run seeds: each fails.
models/README.md says what the models are about.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
FEWEST_FAULTS = 3
MEGABYTES = 3000  # a search that needs more fails
DEPTH = 200_000
SECONDS = 1000


class Model(NamedTuple):
    plain: dict[str, str]  # configurations: name, defines
    faults: dict[str, str]  # name without FAULT_, defines that the checker finds it with
    deep: dict[str, str] = {}  # further configurations
    stops: bool = False  # threads that sleep for ever are no deadlock


# A, B: heaps 1 and 2; F1, F2, NEED: threads without a heap. Each: mallocs, frees, thread ends, looks for memory.
IDLE = "FULL A=1,1,0,0 F1=0,2,0,0 B=1,1,0,0"
NEEDY = "FULL A=1,1,1,0 F1=0,2,0,0 NEED=0,0,0,1"
# After a take: claimed later than from then on.
TAKEN = "K=4 T=1 FULL AT=3 A=1,0,0,0 F1=0,2,0,0 F2=0,1,0,0"
PLACED = "K=6 T=1 FULL AT=3 A=0,0,0,0 F1=0,2,0,0 F2=0,1,0,0 NEED=0,0,0,1"
ROBBED = "K=4 T=1 FULL AT=3 LOCAL=1 A=0,0,0,0 F1=0,1,0,0 F2=0,1,0,0 B=1,0,0,1"
EXHAUSTED = "SHORT K=4 FULL A=0,0,0,0 F1=0,1,0,0 NEED=0,0,0,1 B=1,0,0,0"
FORKER = "FULL A=1,1,0,0 F1=0,2,0,0 B=1,1,0,0"
ADOPTER = "FULL A=2,1,1,0 F1=0,2,0,0"
OWN = "K=4 A=0,0,0,0 F1=0,1,0,0 B=2,1,0,0 NEED=0,0,0,1"
MIXED = "TAKE PURGE MAKE"
SIGNAL = "TAKE PURGE FORK BY_PURGER"
# A: lives, mallocs and frees of the owner's threads, B: of another LAB's, G: frees of one without a LAB.
ADOPTED = "A=1,2,1 B=1,1,1 G=1"
LOCAL_FREES = "A=1,3,2 B=1,0,1 G=0"

# Lives of threads and the processor where they begin.
STARTERS = "A=2,0 B=1,0 C=1,1"

# Hoard's threads of heaps 1, 2 and 1: mallocs, frees.
HEAPS = "A=3,2 B=1,0 C=0,1"

# Calls of two threads with heaps, frees of one without.
BOUND = "A=3 B=2 F=1"

MODELS = {
    "span_life": Model(
        plain={
            "idle owner, a second heap": IDLE,
            "two freers, thread end": "FULL A=1,1,1,0 F1=0,2,0,0 F2=0,1,0,0",
            "thread end, a second heap": "FULL A=1,0,1,0 F1=0,2,0,0 B=1,0,0,0",
            "a reusable span": "REUSE A=1,0,0,0 B=2,1,0,0 NEED=0,0,0,1",
            "four blocks": "K=4 FULL A=2,2,0,0 F1=0,3,0,0",
            "from the first block": "A=3,1,0,0 F1=0,2,0,0",
            "two freers, after a take": TAKEN,
            "two freers, placed by a seizer": PLACED,
            "two freers, stolen from": ROBBED,
            "memory exhausted": "SHORT K=4 FULL A=1,1,0,0 F1=0,1,0,0 B=1,0,0,0",
            "memory exhausted, a seizer": EXHAUSTED,
        },
        faults={
            **{name: IDLE for name in ["CLAIM_STORE", "DECIDE_LATER", "OWNER_LATE", "STALE_COUNT", "ADOPT_FULL"]},
            "TAKE_KEEPS_TAG": TAKEN,
            **{name: PLACED for name in ["NO_TAG", "NOT_RESTORED"]},
            "ADOPT_KEEPS_TAG": ROBBED,
            **{name: NEEDY for name in ["IGNORE_INSIDE", "MAIL_ALL", "EVENT_PUT_OFF"]},
            **{name: EXHAUSTED for name in ["EARLY_KEEPS_TAG", "NO_LOOK"]},
        },
        deep={
            "memory in need, thread end": NEEDY,
            "a heap that seizes another": "FULL A=1,1,0,0 F1=0,2,0,0 B=1,0,0,1",
        },
        stops=True),
    "span_ends": Model(
        plain={
            "idle owner, a second heap": "NO_REST FULL A=1,1,0,0 F1=0,2,0,0 B=1,1,0,0",
            "thread end": "NO_REST FULL A=2,1,1,0 F1=0,2,0,0",
        },
        faults={}),
    "seize": Model(
        plain={"with membarrier": "OPS=2", "with fences": "OPS=3 FENCED", "a thread that starts": "ATTACH",
               "a note": "OPS=1 LOOK"},
        faults={
            **{name: "OPS=2" for name in ["NO_BARRIER", "INSIDE_FIRST", "SELF_FIRST", "SELF_KEPT", "IGNORE_INSIDE",
                                          "MAIL_ALL", "CLEAR_EARLY", "NO_SECOND_LOOK"]},
            "ATTACHED_FIRST": "ATTACH",
            **{name: "OPS=1 LOOK" for name in ["NOTE_READ", "NOTE_STORED"]},
        }),
    "mail": Model(
        plain={"two pushers, two threads": "", "three pushers": "THREE THREADS=1 CALLS=1"},
        faults={name: "" for name in ["LINK_LATE", "NEXT_AFTER", "NO_SECOND_LOOK", "END_UNSEEN", "LOOK_FIRST",
                                      "ATTACHED_FIRST"]}),
    "waiting": Model(
        plain={"three threads": STARTERS},
        faults={name: STARTERS for name in ["NO_TAG", "LINK_ONCE", "LINK_LATE", "COUNT_LATE", "UNCOUNT_FIRST"]},
        deep={"two threads, three lives": "A=3,0 B=3,1 C=0,0"}),
    "partial_pool": Model(
        plain={"three freers, two adopters": ""},
        faults={name: "" for name in ["NO_AWAITED", "RETURNER_ENDS", "DECIDE_LATER", "UNLINK_FIRST",
                                          "ADOPT_FULL"]}),
    "bound": Model(
        plain={"three calls, two calls, a free": BOUND, "two calls each, two frees": "A=2 B=2 F=2"},
        faults={name: BOUND for name in ["NO_SECOND_LOOK", "UNNOTED", "HEAD_FIRST", "SHARED_EARLY", "SHARD_SKIPPED",
                                         "NO_SHED", "NO_MAIL", "NO_TAKING", "UNSUBTRACTED"]},
        stops=True),
    "cif": Model(
        plain={"three threads, two processors": ""},
        faults={name: "" for name in ["NO_SECOND_LOOK", "GLOBAL_LEFT_EARLY", "OWN_LEFT_EARLY", "OWNER_LATE"]}),
    "chunk_word": Model(
        plain={"three users, a purge, a return": ""},
        faults={name: "" for name in ["CLAIM_STORE", "FREE_FIRST", "CLEAN_LATE", "PURGE_UNCLAIMED", "RETURN_LOOKS"]}),
    "room_map": Model(
        plain={"three freers, two searchers": ""},
        faults={name: "" for name in ["NO_SUMMARY", "NOTE_FIRST", "LOOK_FIRST", "NO_SECOND_LOOK", "NO_LOOK"]}),
    "fork": Model(
        plain={
            "thread end": ADOPTER,
            "a forker with a heap": FORKER,
            "its own heap seized": OWN,
            "memory in need": "FULL A=1,1,0,0 F1=0,1,0,0 NEED=0,0,0,1",
        },
        faults={
            **{name: ADOPTER for name in ["NAME_STAYS", "SLICES_STAY", "TWIN", "NOT_MEASURED", "MAIL_WAITS",
                                           "FULL_STAYS"]},
            "NOT_MAILED": FORKER,
            **{name: OWN for name in ["OWN_KEPT", "HOT_FIRST"]},
        },
        stops=True),
    "mixed_span": Model(
        plain={"cut from, purged, made anew": MIXED, "two purges": "CHAIN=1 PURGE PURGE_TWICE"},
        faults={
            **{name: MIXED for name in ["NO_EMPTYING", "STORE", "LOCK_GAP", "PUSH_BLIND", "RETIRE_LATE", "UNCOUNTED"]},
            "TWO_PURGES": "CHAIN=1 PURGE PURGE_TWICE",
        }),
    "mixed_fork": Model(
        plain={
            "another thread forks": "TAKE PURGE FORK",
            "in another life": "CHAIN=1 PURGE MAKE FORK",
            "the purger's signal handler forks": SIGNAL,
        },
        faults={
            **{name: "TAKE PURGE FORK" for name in ["PAGES_STAY", "TORN", "PURGE_UNNAMED"]},
            "NO_SECOND_LOOK": SIGNAL,
        },
        stops=True),
    "hoard": Model(
        plain={
            "two threads of a heap, one of another": "A=3,2 B=1,2 C=0,1",
            "three superblocks": "S=3 A=3,1 B=2,2",
            "empty superblocks go": HEAPS + " RELEASE",
        },
        faults={
            **{name: HEAPS for name in ["NO_RETRY", "OWNER_LATE", "GLOBAL_FIRST", "MALLOC_LOCKS_SUPERBLOCK",
                                        "GLOBAL_LEFT_EARLY"]},
            "HEAP_UNLOCKED_FIRST": HEAPS + " RELEASE",
        }),
    "hoard_fork": Model(
        plain={"a thread forks": HEAPS + " FORK"},
        faults={"FORK_LEAVES_GLOBAL": HEAPS + " FORK"},
        stops=True),
    "scalloc_span": Model(
        plain={
            "owner, adopter, freer": ADOPTED,
            "local frees of a floating span": LOCAL_FREES,
            "a LAB lives again": "A=2,1,1 B=1,0,1 G=1",
        },
        faults={
            **{name: ADOPTED for name in ["PUT_APART", "ONE_TRY", "NO_SETTLE", "NO_COUNTER", "DECIDE_FIRST"]},
            "COUNT_FIRST": LOCAL_FREES,
            "SAME_IDENTITY": "A=2,1,0 B=1,0,1 G=0",
        }),
    "scalloc_stack": Model(
        plain={"two users, a trim": ""},
        faults={name: "" for name in ["NO_TAG", "STALE_LINK", "LINK_LATE"]}),
}
# The same text with another end: here all threads run to theirs, and none may get stuck.
SAME_TEXT = {"span_ends": "span_life", "mixed_fork": "mixed_span", "hoard_fork": "hoard"}


class Run(NamedTuple):
    model: str
    what: str
    defines: str
    fault: str  # "" for a plain run


class Result(NamedTuple):
    run: Run
    states: int
    seconds: float
    complaint: str  # "" if it is as it should be
    finding: str


def source_of(model: str) -> Path:
    return HERE / f"{SAME_TEXT.get(model, model)}.pml"


def seeded_in(text: str) -> set[str]:
    return set(re.findall(r"\bFAULT_(\w+)", text))


def complaints_about_table() -> list[str]:
    """Every model file is run, and every fault in a file is seeded by a run."""
    wrong = []
    for path in sorted(HERE.glob("*.pml")):
        names = [name for name in MODELS if source_of(name) == path]
        if not names:
            wrong.append(f"{path.name} is in no run")
            continue
        seeded = set().union(*(MODELS[name].faults for name in names))
        in_text = seeded_in(path.read_text(encoding="utf-8"))
        if seeded != in_text:
            wrong.append(f"{path.name}: faults in the text and in the runs differ: {sorted(seeded ^ in_text)}")
        if len(in_text) < FEWEST_FAULTS:
            wrong.append(f"{path.name} has fewer than {FEWEST_FAULTS} faults")
    return wrong


def call(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS, check=False)
    return done.stdout


def judge(run: Run, output: str) -> tuple[str, str]:
    """Complaint and finding."""
    errors = re.search(r"errors: (\d+)", output)
    error = re.search(r"^pan:1: (.*)", output, re.MULTILINE)
    finding = error.group(1).split(" (at depth")[0] if error else ""
    if not errors or (errors.group(1) != "0") != bool(error):
        return "the checker did not finish: " + " ".join(output.split())[-300:], finding
    if run.fault:
        # Out of memory and the like are no find.
        found = finding.startswith(("assertion violated", "invalid end state"))
        return ("" if found else f"the fault was not found {finding}"), finding
    if finding:
        return finding, finding
    if "max search depth too small" in output or "Search not completed" in output:
        return "the search was not complete", ""
    return "", ""


def compile_options(run: Run, deep: bool) -> list[str]:
    """What compiles and searches soonest. A deep search outlasts any compilation, and needs its states collapsed."""
    if run.fault:
        return ["-O0"]  # it is found long before more would have paid for itself
    return ["-O1", "-DCOLLAPSE"] if deep else ["-Og"]


def check(run: Run, deep: bool) -> Result:
    start = time.monotonic()
    defines = [f"-D{word}" for word in run.defines.split()] + ([f"-DFAULT_{run.fault}"] if run.fault else [])
    with tempfile.TemporaryDirectory(prefix="coffer-model-") as name:
        directory = Path(name)
        for path in HERE.glob("*.pml"):
            shutil.copy(path, directory)
        output = call(["spin", "-a", *defines, source_of(run.model).name], directory)
        compiler = os.environ.get("CC", "cc")
        output += call([compiler, *compile_options(run, deep), "-w", "-DSAFETY",
                        f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c"], directory)
        if not (directory / "pan").exists():
            return Result(run, 0, time.monotonic() - start, "no checker: " + " ".join(output.split())[-300:], "")
        # -E: a thread that sleeps for ever in the middle of its work is no deadlock.
        options = [f"-m{DEPTH}", "-w22"] + (["-E"] if MODELS[run.model].stops else [])
        try:
            output = call(["./pan", *options], directory)
        except subprocess.TimeoutExpired:
            return Result(run, 0, SECONDS, "the search took too long", "")
    stored = re.search(r"(\d+) states, stored", output)
    complaint, finding = judge(run, output)
    return Result(run, int(stored.group(1)) if stored else 0, time.monotonic() - start, complaint, finding)


def runs_of(model: str, deep: bool) -> list[Run]:
    configurations = {**MODELS[model].plain, **(MODELS[model].deep if deep else {})}
    plain = [Run(model, what, defines, "") for what, defines in configurations.items()]
    return plain + [Run(model, f"fault {name}", defines, name) for name, defines in MODELS[model].faults.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", action="append", choices=sorted(MODELS), help="only this one (may be repeated)")
    parser.add_argument("--deep", action="store_true", help="the deep configurations, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if not shutil.which("spin"):
        print("models: spin is missing (tools/setup.sh models installs it)", file=sys.stderr)
        return 1
    wrong = complaints_about_table()
    start = time.monotonic()
    runs = [run for model in arguments.model or MODELS for run in runs_of(model, arguments.deep)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(lambda one: check(one, arguments.deep), runs):
            verdict = "FAILED: " + result.complaint if result.complaint else "found" if result.run.fault else "holds"
            print(f"{result.run.model:13} {result.run.what:40} {result.states:>9} states {result.seconds:6.1f} s  "
                  f"{verdict}", flush=True)
            if result.complaint:
                wrong.append(f"{result.run.model}, {result.run.what}: {result.complaint}")
    for line in wrong:
        print(f"models: {line}", file=sys.stderr)
    print(f"models: {len(runs)} runs, {len(wrong)} failed, {time.monotonic() - start:.0f} s")
    return 1 if wrong or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
