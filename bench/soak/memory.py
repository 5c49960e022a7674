# SPDX-License-Identifier: MIT
"""The part that watches memory: one or several programs under load and disturbances, sampled all the while."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from coffer_bench import processes
from coffer_bench.allocators import Allocator
from coffer_bench.errors import BenchError, Unavailable
from coffer_bench.processes import tree

from soak import cgroup, faults, huge_pages, latency, sampling
from soak.disturbances import Disturbance, HugePages, all_of_them
from soak.programs import Soaked
from soak.results import Log

INTERVAL = (0.5, 10.0)  # seconds between samples
SAMPLES = 600
BOUT = (2.0, 20.0)  # seconds of a load without pause
BOUTS = 40
# Until memory has settled: after a start, and after another change.
SETTLE_START, SETTLE_CHANGE = 600.0, 60.0
MOST_FAULTS = 20  # of one kind and program, in the file


def within(value: float, limits: tuple[float, float]) -> float:
    return min(limits[1], max(limits[0], value))


class Machine:
    """What is the same for all programs at a time: when it began, and the setting of huge pages."""

    def __init__(self, seconds: float, huge: str) -> None:
        self.began = time.monotonic()
        self.seconds, self.huge, self.changed = seconds, huge, self.began
        self.plan = all_of_them()
        self.period = seconds / (len(self.plan) + 1)
        self.halt = threading.Event()

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def set_huge(self, setting: str) -> None:
        self.huge, self.changed = setting, time.monotonic()


class Conductor:
    """One program. Its thread starts, ends, samples and disturbs the processes; another thread has the load."""

    def __init__(self, program: Soaked, allocator: Allocator, inputs: Path, machine: Machine, log: Log) -> None:
        self.program, self.allocator, self.inputs, self.machine, self.log = program, allocator, inputs, machine, log
        self.ours = allocator.name == "coffer"
        self.pid = self.lives = self.last_kib = self.kills = 0
        self.setting = ""
        self.changed = self.excused_until = 0.0
        self.settle = 0.0
        self.group: cgroup.Group | None = None
        self.no_group = ""
        self.lasting: Disturbance | None = None
        self.over = threading.Event()
        self.server = ExitStack()
        self.counts: dict[str, int] = {}

    # What is written down.

    def record(self, kind: str, **more: object) -> None:
        self.log.append({"kind": kind, "program": self.program.name, "allocator": self.allocator.name,
                         "seconds": round(self.machine.now, 2), **more})

    def fault(self, what: str, text: str) -> None:
        """The first ones of a kind are written down, and all are counted."""
        self.counts[what] = self.counts.get(what, 0) + 1
        if self.counts[what] <= MOST_FAULTS:
            self.record("fault", what=what, text=text, life=self.lives, setting=self.setting)
            self.log.say(f"{self.program.name}: {what}: {text.splitlines()[0] if text else ''}")

    # Starting and ending the server, in the conductor's own thread: what was started ends with it.

    def start(self, options: str = "", refuse: bool = False) -> None:
        self.excuse(60.0)
        with huge_pages.refused(refuse):
            allocator = replace(self.allocator, options=options)
            self.pid = self.server.enter_context(self.program.running(allocator, self.home))
        if self.group:
            for one in tree(self.pid):
                self.group.take(one)
        self.lives += 1
        self.setting = ", ".join(filter(None, [options, "no huge pages" if refuse else ""]))
        self.settle_for(SETTLE_START, 0.5 if self.lives > 1 else 1.0)  # the first life is the longest by far
        self.excuse(1.0)  # a load may have begun before

    def stop(self) -> None:
        self.excuse(60.0)  # start() makes it shorter
        try:
            self.server.close()
        except BenchError as error:
            self.fault("did not end", str(error))
        self.read_log()

    def kill(self) -> None:
        self.excuse(60.0)
        for one in list(tree(self.pid)):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.server.close()
        self.read_log()

    def read_log(self) -> None:
        path = self.home / "server.log"
        printed = path.read_text(errors="replace") if path.exists() else ""
        if lines := faults.told(printed, self.program.harmless):
            self.fault("said", "\n".join(lines))
            self.log.keep(f"{self.program.name}-{self.lives}.log", printed)

    def ended(self) -> None:
        """It ended, and nobody asked it to."""
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        how = "ended"
        if status:
            killed = status.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            how = f"killed by {signal.Signals(status.si_status).name}" if killed else f"exit status {status.si_status}"
        printed = (self.home / "server.log").read_text(errors="replace")
        self.log.keep(f"{self.program.name}-{self.lives}.log", printed)
        if self.group and (kills := self.group.kills) > self.kills:
            self.kills, how = kills, f"{how}, at the control group's limit"
        self.fault("crash", f"{how}\n{printed[-2000:]}")
        self.excuse(60.0)
        if self.lasting:
            self.lasting.after_crash(self)
            self.lasting = None
        self.stop()
        self.start()

    # Time.

    def settle_for(self, seconds: float, periods: float) -> None:
        """What is sampled before counts for nothing."""
        self.changed, self.settle = time.monotonic(), min(seconds, periods * self.machine.period)

    @property
    def settled(self) -> bool:
        now = time.monotonic()
        huge = min(SETTLE_CHANGE, self.machine.period / 4)
        return now - self.changed >= self.settle and now - self.machine.changed >= huge

    def excuse(self, seconds: float) -> None:
        """Requests may fail until then."""
        self.excused_until = time.monotonic() + seconds

    # Load.

    def bear_load(self) -> None:
        bout = within(self.machine.seconds / BOUTS, BOUT)
        while not self.over.wait(bout / 4):
            began = time.monotonic()
            try:
                found = self.program.load(self.home, bout)
                self.program.rest(self.home)
                self.record("load", count=found.get_total_count(), us=latency.percentiles(found))
            except (BenchError, OSError) as error:
                if not self.over.is_set() and began > self.excused_until and not self.machine.halt.is_set():
                    self.fault("request failed", str(error)[:1000])
                self.over.wait(1.0)

    # The run.

    def run(self) -> None:
        load = threading.Thread(target=self.bear_load, daemon=True)
        try:
            self.group = cgroup.Group(f"{self.program.name}-{self.allocator.name}")
        except Unavailable as error:
            self.no_group = str(error)
        try:
            with self.program.home(self.inputs) as self.home:
                try:
                    self.start()
                    load.start()
                    self.conduct()
                finally:
                    self.over.set()
                    if load.ident:
                        load.join()
                    self.stop()
        except (BenchError, OSError) as error:
            self.fault("cannot go on", str(error))
        finally:
            if self.group:
                self.group.remove()
            self.record("conducted", lives=self.lives, faults=self.counts)

    def conduct(self) -> None:
        interval = within(self.machine.seconds / SAMPLES, INTERVAL)
        begun = 0  # disturbances
        while not self.machine.halt.wait(interval):
            if self.machine.now > self.machine.seconds and begun == len(self.machine.plan):
                break  # none is left out, however long they take
            self.sample()
            turn = self.machine.now / self.machine.period - 1
            if self.lasting and turn >= begun - 0.5:
                self.take_back()
            if begun < len(self.machine.plan) and turn >= begun:
                self.take_back()
                self.disturb(self.machine.plan[begun])
                begun += 1
        self.take_back()
        self.check()

    def sample(self) -> None:
        found = sampling.resident(self.pid)
        if not found or found.processes == 0:
            self.ended()
            return
        self.last_kib = found.judged
        self.record("memory", rss=found.rss, own=found.own, tables=found.tables, processes=found.processes,
                    life=self.lives, setting=self.setting, huge=self.machine.huge, settled=self.settled)

    def disturb(self, what: Disturbance) -> None:
        self.check()
        if what.of_machine:
            return
        try:
            what.begin(self)
        except (Unavailable, BenchError, OSError) as error:
            self.record("event", what=what.name, missing=str(error))
            if not isinstance(error, Unavailable):
                self.fault(what.name, str(error))
            if not self.is_alive():
                self.ended()
            return
        self.record("event", what=what.name, begins=True)
        if what.lasts:
            self.lasting, self.setting = what, what.name
            if what.breaks:
                self.excuse(self.machine.period)
            self.settle_for(SETTLE_CHANGE, 0.25)
        elif what.breaks and not what.name.startswith("restart") and not what.name.startswith("kill"):
            self.settle_for(SETTLE_START, 0.5)

    def is_alive(self) -> bool:
        return sampling.resident(self.pid) is not None

    def take_back(self) -> None:
        if not self.lasting:
            return
        what, self.lasting, self.setting = self.lasting, None, ""
        try:
            what.end(self)
        except (BenchError, OSError) as error:
            self.fault(what.name, str(error))
        self.record("event", what=what.name, begins=False)
        self.settle_for(SETTLE_CHANGE, 0.25)
        if what.breaks:
            self.excuse(2.0)

    def check(self) -> None:
        """coffer_check(), where the program can be asked."""
        if not self.ours:
            return
        try:
            found = self.program.check(self.home)
        except Unavailable:
            return
        except (BenchError, OSError) as error:
            if time.monotonic() > self.excused_until:
                self.fault("coffer_check", str(error))
            return
        self.record("check", found=found)
        if found:
            self.fault("coffer_check", found)


def run_together(programs: list[tuple[Soaked, Path]], allocator: Allocator, seconds: float, log: Log,
                 whole_machine: bool) -> None:
    """These programs at a time. Whatever ends this early ends all they started."""
    with huge_pages.put_back() as before:
        machine = Machine(seconds, before)
        conductors = [Conductor(program, allocator, inputs, machine, log) for program, inputs in programs]
        threads = [threading.Thread(target=one.run, name=one.program.name) for one in conductors]
        for one in threads:
            one.start()
        try:
            with processes.together():  # what the loads wait for ends at once, too
                disturb_machine(machine, before, threads, log, whole_machine)
        finally:
            machine.halt.set()
            for one in threads:
                one.join()


def disturb_machine(machine: Machine, before: str, threads: list[threading.Thread], log: Log, may: bool) -> None:
    def note(what: str, **more: object) -> None:
        log.append({"kind": "event", "program": "", "allocator": "", "seconds": round(machine.now, 2), "what": what,
                    **more})

    for number, what in enumerate(machine.plan):
        if not isinstance(what, HugePages):
            continue
        if not wait_until(machine, threads, (number + 1) * machine.period):
            return
        try:
            if not may:
                raise Unavailable("was not to be changed (--no-machine)")
            what.begin_machine()
        except Unavailable as error:
            note(what.name, missing=str(error))
            continue
        machine.set_huge(what.setting)
        note(what.name, begins=True)
        wait_until(machine, threads, (number + 1.5) * machine.period)
        huge_pages.set_system(before)
        machine.set_huge(before)
        note(what.name, begins=False)
    wait_until(machine, threads, float("inf"))


def wait_until(machine: Machine, threads: list[threading.Thread], seconds: float) -> bool:
    """False if all programs have ended before."""
    while machine.now < seconds:
        alive = [one for one in threads if one.is_alive()]
        if not alive:
            return False
        alive[0].join(0.2)
    return True
