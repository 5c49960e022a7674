"""coffer stat and coffer top on processes that really run, and the reader of the shared page on whatever a file may
hold."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coffer import places
from coffer.errors import CofferError
from coffer.live import figures, page

COMMAND = places.build_dir() / "bin" / "coffer"
VENV_PYTHON = places.build_dir() / "venv" / "bin" / "python"
PROGRAM = Path(os.environ["COFFER_LIVE_PROGRAM"])
MIB = 1 << 20
SIGNAL = signal.SIGRTMIN + 7


class Program:
    def __init__(self, conf: str, preload: bool = True, **more: object) -> None:
        environment = {**os.environ, "COFFER_CONF": conf}
        if preload:
            environment["LD_PRELOAD"] = str(places.library())
        self.process = subprocess.Popen([PROGRAM], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1, **more)
        assert self.answer() == "ready"

    @property
    def pid(self) -> int:
        return self.process.pid

    def answer(self) -> str:
        return self.process.stdout.readline().strip()

    def do(self, letters: str) -> str:
        for letter in letters:
            self.process.stdin.write(letter)
            self.process.stdin.flush()
            last = self.answer()
        return last

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


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


def pages_of(pid: int) -> list[Path]:
    return [path for directory in ("/dev/shm", "/tmp") for path in Path(directory).glob(f"coffer-*-{pid}")]


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
    assert len(held["spans"]) == min(512, held["figures"]["spans"]) and "hot" in {span["state"] for span in spans}
    assert 0 <= sum(span["live"] for span in spans) - klass["live"] <= 256 * 1024  # hot lists of other threads
    assert all(span["live"] <= span["held"] and span["resident"] <= span["held"] for span in held["spans"])
    owners = {heap["index"] for heap in held["heaps"]} | {None}
    assert {span["owner"] for span in held["spans"]} <= owners


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
        match = re.fullmatch(r'(coffer_\w+)\{pid="(\d+)",program="[^"]+"(,block_bytes="\d+")?\} ([\d.]+)', line)
        assert match and match[1] in kinds and match[2] == str(shared.pid), line
        assert match[1].endswith("_total") == (kinds[match[1]] == "counter")
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples), "no sample twice"
    live = next(line for line in samples if line.startswith("coffer_live_bytes"))
    assert int(live.split()[-1]) > 0


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
    states = (Path(__file__).parents[2] / "src/span/remote_word.hpp").read_text()
    assert re.findall(r"^  (\w+) = \d", states.split("enum class SpanState")[1], re.MULTILINE) == page.STATES


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
    assert "No such file" in run("stat", "--", tmp_path / "nothing", status=1).stderr


def test_exec_is_followed(shared: Program) -> None:
    with page.Watched(shared.pid) as watched:
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


def test_a_fork_child_has_its_own(shared: Program) -> None:
    shared.do("a")
    child = int(shared.do("k").split()[1])
    try:
        with page.wait_for_page(child, 5) as found:
            assert found.read().process == child
        assert stat_json(shared.pid)["pid"] == shared.pid
        assert str(child) in run("stat").stdout and str(shared.pid) in run("stat").stdout
    finally:
        os.kill(child, signal.SIGKILL)


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
        look = page.candidates

        def late(process: page.Process) -> list[Path]:
            os.kill(program.pid, SIGNAL)
            while not (found := look(process)):
                time.sleep(0.001)
            return found

        monkeypatch.setattr(page, "candidates", late)
        page.wait_for_page(program.pid, 2.0).close()
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
    code = "".join((tools / "coffer" / name).read_text() for name in ("errors.py", "live/page.py"))
    code = re.sub(r"^from (coffer|__future__).*$", "", code, flags=re.MULTILINE)
    code = f"from __future__ import annotations\n{code}\n" \
           f"try: open_page({shared.pid})\nexcept CofferError as error: print(error)\n"
    done = subprocess.run(["/usr/bin/env", "-i", "/usr/bin/python3", "-c", code], user="nobody", cwd="/",
                          capture_output=True, text=True)
    assert "permission denied" in done.stdout, done.stdout + done.stderr


# --- Hostile content. ---


@pytest.fixture(scope="module")
def real_page() -> bytes:
    program = Program("share:true")
    program.do("aaa")
    time.sleep(0.15)
    program.do("a")
    (path,) = pages_of(program.pid)
    data = path.read_bytes()
    program.end()
    path.unlink(missing_ok=True)
    return data


def read_file(path: Path) -> page.Reading:
    with page.Page(path) as opened:
        return opened.read(patience=0)


def test_a_copied_page_reads(tmp_path: Path, real_page: bytes) -> None:
    (tmp_path / "page").write_bytes(real_page)
    reading = read_file(tmp_path / "page")
    assert reading.figures["live"] > 0 and reading.classes and reading.heaps


@pytest.mark.parametrize(("at", "value", "message"), [
    (0, b"NOTAPAGE", "not a page"), (8, struct.pack("<I", 2), "version 2"), (16, struct.pack("<I", 1 << 31), "damaged"),
    (20, struct.pack("<I", 8), "damaged"), (24, struct.pack("<I", 0), "damaged"),
    (24, struct.pack("<I", 0xFFFFFFFF), "damaged"), (32, struct.pack("<I", 0xFFFFFFFF), "damaged"),
    (36, struct.pack("<I", 1), "damaged"), (40, struct.pack("<I", 4000), "damaged"), (96, bytes(8), "no whole set"),
])
def test_damage_is_named(tmp_path: Path, real_page: bytes, at: int, value: bytes, message: str) -> None:
    (tmp_path / "page").write_bytes(real_page[:at] + value + real_page[at + len(value):])
    with pytest.raises(CofferError, match=message):
        read_file(tmp_path / "page")


def test_spans_are_behind_the_end(tmp_path: Path, real_page: bytes) -> None:
    """A page of a Coffer that had none is read, too; one whose spans do not fit is refused."""
    copies, length = struct.unpack_from("<II", real_page, 16)
    (turn,) = struct.unpack_from("<Q", real_page, 96)
    with page.Page(write(tmp_path / "page", real_page)) as opened:
        assert opened.read(patience=0).spans
        end_at = opened.layout.end_at
    at = copies + turn % 2 * length + end_at + 8
    most, fields, _ = struct.unpack_from("<3Q", real_page, at)
    assert most * fields * 8 + 24 + end_at + 8 <= length
    for wrong in (struct.pack("<Q", most + 1), struct.pack("<Q", 1 << 63), struct.pack("<QQ", most, 3)):
        with pytest.raises(CofferError, match="spans do not fit"):
            read_file(write(tmp_path / "page", real_page[:at] + wrong + real_page[at + len(wrong):]))
    short = bytearray(real_page)
    short[20:24] = struct.pack("<I", end_at + 8)
    place = copies + turn % 2 * (end_at + 8)
    short[place:place + end_at + 8] = real_page[at - end_at - 8:at]
    assert read_file(write(tmp_path / "page", bytes(short))).spans == []


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_no_content_breaks_the_reader(tmp_path: Path, real_page: bytes) -> None:
    seed = int(os.environ.get("SEED", "7"))
    rounds = int(os.environ.get("ROUNDS", "3000"))
    source = random.Random(seed)
    path = tmp_path / "page"
    outcomes = {"read": 0, "refused": 0}
    for number in range(rounds):
        data = bytearray(real_page)
        kind = number % 4
        if kind == 0:
            data = data[:source.randrange(len(data))]
        elif kind == 1:
            for _ in range(source.randrange(1, 9)):
                data[source.randrange(208)] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
        elif kind == 2:
            for _ in range(source.randrange(1, 400)):
                data[source.randrange(len(data))] = source.randrange(256)
        else:
            data = bytearray(source.randbytes(source.randrange(5000)))
            data[:8] = page.MAGIC
        path.write_bytes(data)
        try:
            reading = read_file(path)
            figures.line(reading, figures.rates_between(reading, reading))
            figures.as_prometheus(1, reading)
            json.dumps(figures.as_json(reading, figures.Rates()))
            outcomes["read"] += 1
        except CofferError:
            outcomes["refused"] += 1
        except Exception as error:
            raise AssertionError(f"SEED={seed}, round {number}: {error!r}") from error
    assert min(outcomes.values()) > rounds // 20, outcomes


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "fifo", tmp_path / "link", Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(CofferError):
            read_file(path)


def test_another_users_file_is_refused(tmp_path: Path, real_page: bytes) -> None:
    (tmp_path / "page").write_bytes(real_page)
    with pytest.raises(CofferError, match="belongs to user"):
        page.Page(tmp_path / "page", owners={os.geteuid() + 1})


# --- top. ---


def test_top_by_its_pilot(shared: Program) -> None:
    shared.do("aaaa")
    time.sleep(0.15)
    shared.do("a")
    done = subprocess.run([VENV_PYTHON, "-B", str(Path(__file__).with_name("top_pilot.py")), str(shared.pid)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "the pilot is content" in done.stdout, done.stdout + done.stderr
