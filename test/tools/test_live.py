# SPDX-License-Identifier: MIT
"""coffer stat and coffer top on processes that really run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coffer import places
from coffer.live import figures, page, processes
from live_program import PROGRAM, Program, pages_of

COMMAND = places.build_dir() / "bin" / "coffer"
VENV_PYTHON = places.build_dir() / "venv" / "bin" / "python"
MIB = 1 << 20
SIGNAL = signal.SIGRTMIN + 7


@pytest.fixture
def shared() -> Iterator[Program]:
    program = Program("share:true")
    yield program
    program.end()


def run(*arguments: object, status: int = 0, **more: object) -> subprocess.CompletedProcess:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def stat_json(pid: int, *more: object) -> dict:
    return json.loads(run("stat", pid, "--json", "--count", 1, *more).stdout)


# --- stat. ---


def test_figures_follow_the_program(shared: Program) -> None:
    before = stat_json(shared.pid)
    assert before["pid"] == shared.pid and before["program"] == PROGRAM.name[:15]
    shared.do("aaaaaaaa")
    time.sleep(0.15)
    shared.do("a")
    held = stat_json(shared.pid)
    assert 8 * MIB <= held["figures"]["live"] - before["figures"]["live"] <= 11 * MIB
    assert held["now"]["held"] <= held["figures"]["bound"]
    assert held["figures"]["allocated_blocks"] - before["figures"]["allocated_blocks"] >= 8 * 1048
    (klass,) = [one for one in held["classes"] if one["block_bytes"] == 1024 and one["spans"]]
    assert klass["live"] >= 7 * MIB and klass["held"] >= klass["live"]
    assert any(heap["attached"] and heap["held"] >= 8 * MIB for heap in held["heaps"])
    spans = [span for span in held["spans"] if span["block_bytes"] == 1024]
    assert len(held["spans"]) == min(512, held["figures"]["spans"])
    # Those of a thread that sleeps: full ones float; the reclaimer may have taken the hot one.
    assert "floating" in {span["state"] for span in spans}
    assert 0 <= sum(span["live"] for span in spans) - klass["live"] <= 256 * 1024  # hot lists of other threads
    assert all(span["live"] <= span["held"] and span["resident"] <= span["held"] for span in held["spans"])
    owners = {heap["index"] for heap in held["heaps"]} | {None}
    assert {span["owner"] for span in held["spans"]} <= owners


def test_a_program_that_sleeps_shows_what_it_holds(shared: Program) -> None:
    """Issue 16: it had shown what was so when it last allocated, 5.7 MB where 20 were."""
    shared.do("a" * 20)
    held = stat_json(shared.pid)
    assert not held["stale"]
    assert 20 * MIB <= held["figures"]["live"] <= held["figures"]["held"] <= held["figures"]["bound"]
    assert held["rss"] >= 0.9 * held["figures"]["resident"]  # each block's first bytes are its links
    shared.do("f")
    assert stat_json(shared.pid)["figures"]["live"] < 5 * MIB


def test_nothing_is_shown_above_its_bound(shared: Program) -> None:
    seed = int(os.environ.get("SEED", "16"))
    source = random.Random(seed)
    with processes.Watched(shared.pid) as watched:
        for step in range(30):
            shared.do(source.choice(["a", "aaa", "aaaaaaaaa", "f"]))
            shown = watched.read()
            values = [shown.figures["live"], shown.held, shown.figures["bound"]]
            assert values == sorted(values), f"SEED={seed}, step {step}: {values}"
            assert shown.figures["resident"] <= shown.figures["bound"], f"SEED={seed}, step {step}"


@pytest.mark.all_processes
def test_what_is_not_fresh_says_so(shared: Program) -> None:
    """A process that is stopped answers nobody."""
    shared.do("a")
    stat_json(shared.pid)
    os.kill(shared.pid, signal.SIGSTOP)
    time.sleep(1.2)
    text = run("stat", shared.pid, "--count", 2, "--interval", 0.05).stdout
    assert all(re.search(r"  stale, \d+ s$", line) for line in text.splitlines()[1:]), text
    assert stat_json(shared.pid)["stale"]
    assert "stale" in run("stat").stdout
    os.kill(shared.pid, signal.SIGCONT)
    with processes.Watched(shared.pid) as watched:
        deadline = time.monotonic() + 30
        while watched.read().is_stale and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not watched.read().is_stale


@pytest.mark.all_processes
def test_who_does_not_answer_makes_no_others_figures_old(shared: Program) -> None:
    """In the list of all: they were as old as the wait for it, a second."""
    other = Program("share:true")
    try:
        time.sleep(0.5)
        os.kill(shared.pid, signal.SIGSTOP)
        time.sleep(1.2)
        ages = {one["pid"]: one["age_seconds"] for one in map(json.loads, run("stat", "--json").stdout.splitlines())}
        assert ages[shared.pid] > 1 and ages[other.pid] < 0.5, ages
    finally:
        os.kill(shared.pid, signal.SIGCONT)
        other.end()


def test_a_page_that_may_only_be_read_is_read(shared: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.do("a")
    with processes.Watched(shared.pid) as watched:
        before = os.open

        def refuse(path: str, flags: int, *more: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise PermissionError(13, "Permission denied", path)
            return before(path, flags, *more)

        monkeypatch.setattr(os, "open", refuse)
        assert watched.read().figures["bound"] > 0 and watched.page.ask() is None


def test_lines_come_by_the_second(shared: Program) -> None:
    began = time.monotonic()
    text = run("stat", shared.pid, "--count", 3, "--interval", 0.2).stdout
    assert 0.4 <= time.monotonic() - began
    lines = text.splitlines()
    assert lines[0].split() == [name for name, _ in figures.COLUMNS] and len(lines) == 4
    assert all(re.fullmatch(r"[\d.]+[BKMGT]", line.split()[0]) for line in lines[1:])


def test_prometheus_text_can_be_parsed(shared: Program) -> None:
    time.sleep(0.15)
    shared.do("a")
    text = run("stat", shared.pid, "--prometheus").stdout
    assert text.endswith("\n")
    kinds = dict(re.findall(r"^# TYPE (\w+) (gauge|counter)$", text, re.MULTILINE))
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    for line in samples:
        match = re.fullmatch(r'(coffer_\w+)\{((?:block_bytes="\d+"|kind="\w+"),)?pid="(\d+)",program="[^"]+"\}'
                             r" ([\d.]+(?:e\+\d+)?)", line)
        assert match and match[1] in kinds and match[3] == str(shared.pid), line
        assert match[1].endswith("_total") == (kinds[match[1]] == "counter")
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples), "no sample twice"
    live = next(line for line in samples if line.startswith("coffer_live_bytes"))
    assert float(live.split()[-1]) > 0


@pytest.mark.all_processes
def test_prometheus_text_of_several_has_each_metric_once(shared: Program) -> None:
    """HELP and TYPE stood there for each process, which the format forbids."""
    other = Program("share:true")
    try:
        text = run("stat", "--prometheus").stdout
        assert text.count("# TYPE coffer_live_bytes gauge\n") == 1
        assert all(f'coffer_live_bytes{{pid="{one.pid}",' in text for one in (shared, other))
    finally:
        other.end()


def test_one_source_for_all_forms() -> None:
    header = (Path(__file__).parents[2] / "src/observe/shared_page.hpp").read_text()

    def names(macro: str) -> list[str]:
        return re.findall(r"FIGURE\((\w+)\)", re.search(rf"#define {macro}\(FIGURE\)((?:.*\\\n)*.*)", header)[1])

    assert names("COFFER_PAGE_FIGURES") == page.FIGURES
    assert names("COFFER_PAGE_NOW") == page.NOW
    document = (Path(__file__).parents[2] / "docs/reference/shared-page.md").read_text()
    assert all(f"`{name}`" in document for name in page.FIGURES + page.NOW + page.CLASS_FIELDS + page.HEAP_FIELDS
               + page.SPAN_FIELDS + page.STATES)
    fields = re.search(r"struct Span \{\n  Atomic<u64> ([^;]*);", header)[1].split(", ")
    assert fields == page.SPAN_FIELDS


def test_a_program_is_started_and_followed(tmp_path: Path) -> None:
    output = tmp_path / "figures"
    done = run("stat", "--interval", 0.1, "--output", output, "--", "sh", "-c",
               f"echo out; (sleep 1; echo q) | exec {PROGRAM}", status=3)
    assert done.stdout.startswith("out\nready") and done.stderr == ""
    lines = output.read_text().splitlines()
    assert lines[0].split()[0] == "live" and len(lines) >= 3


def test_the_programs_end_is_the_commands(tmp_path: Path) -> None:
    run("stat", "--", "sh", "-c", "exit 7", status=7)
    run("stat", "--", "sh", "-c", "kill -9 $$", status=137)
    assert "No such file" in run("stat", "--", tmp_path / "nothing", status=127).stderr
    assert "Permission denied" in run("stat", "--", "/etc/passwd", status=126).stderr


def test_a_file_that_takes_no_figures(tmp_path: Path) -> None:
    """One that cannot be opened is an error; of one that is full the program knows nothing."""
    for place in (tmp_path, tmp_path / "nowhere" / "file"):
        assert run("stat", "--output", place, "--", "true", status=1).stderr.startswith(f"coffer: {place}: ")
    done = run("stat", "--output", "/dev/full", "--", "sh", "-c", "sleep 0.3; exit 7", status=7)
    assert done.stderr == "coffer: /dev/full: No space left on device: figures are lost\n"


def test_a_program_that_does_not_start_takes_no_file(tmp_path: Path) -> None:
    """Of issue 16: what was in the file of figures was lost before."""
    output = tmp_path / "figures"
    output.write_text("old")
    run("stat", "--output", output, "--", tmp_path / "nothing", status=127)
    assert output.read_text() == "old"
    run("stat", "--output", output, "--", "sleep", "0.3")
    assert output.read_text().startswith("   live ")


def test_exec_is_followed(shared: Program) -> None:
    with processes.Watched(shared.pid) as watched:
        shared.do("aaaa")
        time.sleep(0.15)
        shared.do("a")
        before = watched.read()
        assert before.figures["live"] >= 4 * MIB
        inode = watched.page.status.st_ino
        shared.process.stdin.write("x")
        shared.process.stdin.flush()
        assert shared.answer() == "ready"
        after = watched.read()
        assert watched.page.status.st_ino != inode and after.figures["live"] < MIB
    assert len(pages_of(shared.pid)) == 1


def test_a_page_of_before_exec_is_nobodys() -> None:
    """The program became one that runs without Coffer: its number is the same, and so is the page's name."""
    environment = {**os.environ, "LD_PRELOAD": str(places.library()), "COFFER_CONF": "share:true"}
    code = "import os, sys; x = [bytes(99) for _ in range(9999)]; os.environ.pop('LD_PRELOAD');" \
           " print(1, flush=True); sys.stdin.readline(); os.execv('/bin/sleep', ['sleep', '30'])"
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        assert len(pages_of(process.pid)) == 1
        process.stdin.write("\n")
        process.stdin.close()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "does not run Coffer" in run("stat", process.pid, status=1).stderr
        assert pages_of(process.pid) == [], "removed"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.all_processes
def test_a_fork_child_has_its_own(shared: Program) -> None:
    shared.do("a")
    child = int(shared.do("k").split()[1])
    try:
        with processes.wait_for_page(child, 5) as found:
            assert found.read().process == child
        assert stat_json(shared.pid)["pid"] == shared.pid
        assert str(child) in run("stat").stdout and str(shared.pid) in run("stat").stdout
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_fork_child_that_only_sleeps_has_its_own(shared: Program) -> None:
    """Issue 16: it showed none, and the message said to start it with what it had been started with."""
    shared.do("a")
    child = int(shared.do("w").split()[1])
    try:
        figures_of = stat_json(child)
        assert figures_of["pid"] == child and figures_of["figures"]["live"] >= MIB and not figures_of["stale"]
    finally:
        os.kill(child, signal.SIGKILL)


def tasks(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def wait_for(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up being root")
def test_a_daemon_keeps_no_thread_of_roots() -> None:
    """It is shown all the same: with the page that it made as root, and fresh again once it allocates."""
    code = "import os, sys; os.setuid(65534); print('ready', flush=True)\n" \
           "for line in sys.stdin: kept = [bytes(1000) for _ in range(9000)]; print('done', flush=True)"
    environment = {**os.environ, "LD_PRELOAD": str(places.library()), "COFFER_CONF": "share:true"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, bufsize=1) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            assert wait_for(lambda: tasks(process.pid) == 1)
            assert stat_json(process.pid)["figures"]["live"] > 0
            process.stdin.write("x\n")
            assert process.stdout.readline() == "done\n"
            figures_of = stat_json(process.pid)
            assert figures_of["figures"]["live"] >= 9 * MIB - MIB and not figures_of["stale"]
            assert tasks(process.pid) == 2
            process.stdin.close()
            assert process.wait() == 0
        finally:
            process.kill()


def test_without_the_thread_a_child_says_when_it_shows() -> None:
    program = Program("share:true,reclaimer:false")
    try:
        child = int(program.do("w").split()[1])
        try:
            assert "share:true and shows no page so far" in run("stat", child, status=1).stderr
        finally:
            os.kill(child, signal.SIGKILL)
    finally:
        program.end()


@pytest.mark.all_processes
def test_what_a_killed_process_left_is_removed() -> None:
    program = Program("share:true")
    program.do("a")
    assert len(pages_of(program.pid)) == 1
    program.end()
    assert len(pages_of(program.pid)) == 1, "nobody could remove it so far"
    assert "there is no process" in run("stat", program.pid, status=1).stderr
    subprocess.run([str(COMMAND), "stat"], capture_output=True)
    assert pages_of(program.pid) == []


def test_an_end_leaves_nothing(shared: Program) -> None:
    shared.do("a")
    assert len(pages_of(shared.pid)) == 1
    shared.process.stdin.write("q")
    shared.process.stdin.flush()
    assert shared.process.wait() == 3
    assert pages_of(shared.pid) == []


def test_a_signal_offers_the_page_and_refreshes_it() -> None:
    program = Program(f"share_signal:{int(SIGNAL)}")
    try:
        program.do("aaaa")
        assert "shows no page" in run("stat", program.pid, status=1).stderr
        first = stat_json(program.pid, "--signal", int(SIGNAL))
        assert first["figures"]["live"] >= 4 * MIB
        # It does nothing now, and the figures are fresh all the same.
        program.do("f")
        again = stat_json(program.pid)
        assert again["age_seconds"] < 1 and again["figures"]["live"] < 3 * MIB
        program.do("a")
        assert stat_json(program.pid)["figures"]["live"] > again["figures"]["live"]
    finally:
        program.end()


def test_a_page_that_is_just_made_is_not_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process makes its page at the worst moment: after whatever the reader looks at before it has found one."""
    program = Program(f"share_signal:{int(SIGNAL)}")
    try:
        program.do("a")
        look = processes.candidates

        def late(process: processes.Process) -> list[Path]:
            os.kill(program.pid, SIGNAL)
            while not (found := look(process)):
                time.sleep(0.001)
            return found

        monkeypatch.setattr(processes, "candidates", late)
        processes.wait_for_page(program.pid, 2.0).close()
        assert len(pages_of(program.pid)) == 1
    finally:
        program.end()


def test_who_is_not_ready_for_a_signal_gets_none(shared: Program) -> None:
    assert "has no handler for signal" in run("stat", shared.pid, "--signal", int(SIGNAL), status=1).stderr
    assert "there is no signal 99" in run("stat", shared.pid, "--signal", 99, status=1).stderr
    assert shared.process.poll() is None


def test_a_program_that_asked_for_nothing_has_no_handler() -> None:
    program = Program("")
    try:
        status = Path(f"/proc/{program.pid}/status").read_text()
        assert re.search(r"^SigCgt:\s*0+$", status, re.MULTILINE)
        assert pages_of(program.pid) == []
    finally:
        program.end()


def test_errors_are_clear(shared: Program) -> None:
    assert "there is no process 4194305" in run("stat", 4194305, status=1).stderr
    assert "there is no process 4194305" in run("top", 4194305, status=1).stderr
    plain = Program("", preload=False)
    quiet = Program("")
    try:
        assert "does not run Coffer" in run("stat", plain.pid, status=1).stderr
        assert "runs Coffer but shows no page" in run("stat", quiet.pid, status=1).stderr
        assert "--json or --prometheus" in run("stat", shared.pid, "--json", "--prometheus", status=1).stderr
    finally:
        plain.end()
        quiet.end()
    run("stat", shared.pid, "--interval", 0, status=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_users_process_is_not_ours_to_read(shared: Program) -> None:
    shared.do("a")
    # As nobody, who may not even see the checkout: what it needs is copied.
    tools = Path(places.__file__).parents[1]
    code = "".join((tools / "coffer" / name).read_text() for name in ("errors.py", "live/page.py", "live/processes.py"))
    code = re.sub(r"^from (coffer|__future__).*$", "", code, flags=re.MULTILINE)
    code = f"from __future__ import annotations\n{code}\n" \
           f"try: open_page({shared.pid})\nexcept CofferError as error: print(error)\n"
    done = subprocess.run(["/usr/bin/env", "-i", "/usr/bin/python3", "-c", code], user="nobody", cwd="/",
                          capture_output=True, text=True)
    assert "permission denied" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_program_that_becomes_another_users(tmp_path: Path) -> None:
    """The figures end; the command waits for it all the same. Without the right to look into everybody's processes."""
    weaker = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    other = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", "sleep 1; exit 7"]
    done = subprocess.run([*weaker, COMMAND, "stat", "--interval", "0.05", "--", *other], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 7, done.stderr
    assert "belongs to another user" in done.stderr.splitlines()[-1]


# --- top. ---


def test_top_without_a_terminal(shared: Program) -> None:
    """It drew on nothing, and waited for keys that could not come."""
    shared.do("a")
    assert f"no terminal; coffer stat {shared.pid} prints lines" in run("top", shared.pid, status=1).stderr


@pytest.mark.parametrize("end", [b"q", signal.SIGTERM])
def test_top_in_a_terminal(shared: Program, end: bytes | signal.Signals) -> None:
    """Which is as before afterwards, however it ends."""
    shared.do("a")
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    done = subprocess.Popen([str(COMMAND), "top", str(shared.pid)], stdin=terminal, stdout=terminal, stderr=terminal,
                            env={**os.environ, "TERM": "xterm"}, start_new_session=True)
    drawn = b""
    while b"live" not in drawn:
        drawn += os.read(leader, 65536)
    os.close(terminal)
    if isinstance(end, bytes):
        os.write(leader, end)
    else:
        done.send_signal(end)
    with contextlib.suppress(OSError):  # the end of the other side
        while more := os.read(leader, 65536):
            drawn += more
    os.close(leader)
    assert done.wait(timeout=60) == (0 if isinstance(end, bytes) else -end)
    assert b"\x1b[?1049l" in drawn  # back from the other screen


def test_top_by_its_pilot(shared: Program) -> None:
    shared.do("aaaa")
    time.sleep(0.15)
    shared.do("a")
    done = subprocess.run([VENV_PYTHON, "-B", str(Path(__file__).with_name("top_pilot.py")), str(shared.pid)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "the pilot is content" in done.stdout, done.stdout + done.stderr
