# SPDX-License-Identifier: MIT
"""coffer record and processes that fork, execute, start threads and libraries, are killed or find no room."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from coffer import places
from recording import BUILD, BUMP, COMMAND, SUBJECT, assert_whole, command, read, record

# `make test` does a quarter of what only makes a failure likelier, `make test-long` all (tools.trace.survival_long).
PART = 1 if os.environ.get("COFFER_LONG") else 4


def test_fork_leaves_the_childrens_records_out(tmp_path: Path) -> None:
    done = record(tmp_path / "t", "--", SUBJECT, "fork")
    assert "done" in done.stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][300] == 15 and 200 not in trace["sizes"] and trace["operations"]["FORK"] == 3
    assert "3 other processes" in done.stderr and list(tmp_path.iterdir()) == [tmp_path / "t"]


def test_fork_records_children_when_asked(tmp_path: Path) -> None:
    record(tmp_path / "t", "--children", "--", SUBJECT, "fork")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    assert_whole(read(tmp_path / "t"))
    for path in files[1:]:
        child = read(path)
        assert child["complete"] and child["sizes"][200] == 1000 and 300 not in child["sizes"]
        assert path.name == f"t.{child['information']['pid']}"


def test_more_children_than_the_command_may_have_files(tmp_path: Path) -> None:
    """By the limit that its caller has: the program keeps that, and the command takes the highest that it may."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    many = "ulimit -Sn; for i in $(seq 60); do sleep 100 & done; kill $(jobs -p); wait"
    done = record(tmp_path / "t", "--children", "--", "bash", "-c", many, preexec_fn=limit)
    assert done.stdout == "64\n" and "Too many open files" not in done.stderr


def test_exec_begins_a_trace_of_its_own(tmp_path: Path) -> None:
    record(tmp_path / "t", "--", SUBJECT, "exec", "200")
    first, second = read(tmp_path / "t.exec1"), read(tmp_path / "t")
    assert_whole(first)
    assert_whole(second)
    assert first["sizes"][100] == 200 and first["footer"]["end"] == "exec"
    assert second["sizes"][100] == 500 and second["footer"]["end"] == "exited"


def test_a_program_that_is_executed_without_the_recorder(tmp_path: Path) -> None:
    """The trace that there is is not its, and does not end as it does."""
    done = record(tmp_path / "t", "--", "env", "-i", "sleep", "1")
    assert re.search(r"t ends where the process became \S*/sleep, which did not load the recorder", done.stderr)
    footer = read(tmp_path / "t")["footer"]
    assert footer["end"] == "exec" and "status" not in footer


def test_vfork_and_spawned_children(tmp_path: Path) -> None:
    assert "done" in record(tmp_path / "t", "--", SUBJECT, "vfork").stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][100] == 150
    record(tmp_path / "u", "--children", "--", "sh", "-c", "true; /bin/true; echo x | cat")
    for path in tmp_path.glob("u*"):
        assert read(path)["complete"]


def test_dlopen(tmp_path: Path) -> None:
    assert "done" in record(tmp_path / "t", "--stacks", "frames", "--", SUBJECT, "dlopen").stdout
    assert_whole(read(tmp_path / "t"))


@pytest.mark.parametrize("count", [10, 3000])
def test_threads(tmp_path: Path, count: int) -> None:
    assert "done" in record(tmp_path / "t", "--", SUBJECT, "threads", count).stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][50] == 10 * count and trace["sizes"][77] == count and trace["sizes"][1000] == count
    assert trace["operations"]["THREAD_START"] == count + 1 and trace["operations"]["THREAD_END"] == count
    assert trace["footer"]["threads"] == str(count + 1)


def test_a_freed_block_comes_again_after_a_system_call(tmp_path: Path) -> None:
    """It was taken for one that the allocator itself had recorded, and left out."""
    record(tmp_path / "t", "--allocator", BUMP, "--", SUBJECT, "count", 100, 54321)
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][54321] == 100 and trace["operations"]["GIVE"] == 100


@pytest.mark.parametrize("allocator", ["coffer", "glibc", "tcmalloc"])
def test_the_order_of_a_hand_over(tmp_path: Path, allocator: str) -> None:
    record(tmp_path / "t", "--allocator", allocator, "--", SUBJECT, "relay", 20000)
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][64] >= 20000


def test_signals_in_the_middle_of_a_record(tmp_path: Path) -> None:
    done = record(tmp_path / "t", "--allocator", BUMP, "--", SUBJECT, "signals", 3_000_000)
    allocated = int(re.search(r"allocated (\d+)", done.stderr)[1])
    trace = read(tmp_path / "t")
    assert trace["complete"]
    recorded = trace["sizes"][40] + trace["sizes"][500]
    assert trace["sizes"][500] > 20
    assert allocated - trace["summary"]["lost"] <= recorded <= allocated


def test_signals_while_a_stack_is_recorded(tmp_path: Path) -> None:
    """It is longer than the room that is kept for what handlers record: it was written into the next thread's chunk."""
    record(tmp_path / "t", "--allocator", BUMP, "--stacks", "frames", "--depth", 256, "--", SUBJECT, "deep",
           80_000 // PART)
    trace = read(tmp_path / "t")
    assert trace["complete"] and trace["sizes"][40] == 80_000 // PART
    assert set(trace["lost"]) <= {"2"}  # handlers' in the middle of a record; nothing was written over


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    record(tmp_path / "t", "--", SUBJECT, "kill", 123456, status=-signal.SIGKILL)
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][24] == 123456
    assert trace["footer"]["end"] == "killed" and trace["footer"]["status"] == "9"


def test_killing_the_recorder_loses_the_last_moment_only(tmp_path: Path) -> None:
    """The program says how far it is; what it had said a second before the end must be in the file."""
    started = subprocess.Popen(command(tmp_path / "t", "--", SUBJECT, "slow", 4000), stdout=subprocess.PIPE, text=True)
    begun, said = 0.0, 0  # from the first line on: the command itself may take seconds to start on a busy machine
    for line in started.stdout:
        begun = begun or time.monotonic()
        if time.monotonic() < begun + 1.5:
            said = int(line)
        if time.monotonic() > begun + 3:
            break
    started.kill()
    rest = started.stdout.read()
    assert rest.endswith("done\n"), "the program goes on by itself"
    (unfinished,) = tmp_path.iterdir()
    trace = read(unfinished)
    assert "cut off" in trace["shortfall"]
    assert not trace["complete"] and trace["summary"]["lost"] == 0
    assert trace["sizes"][100] >= 1000 * said > 0


def cpu_time(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_job_that_is_stopped_goes_on(tmp_path: Path) -> None:
    """The program stands still while it waits for its collector, and looks for it first when both go on."""
    started = subprocess.Popen(command(tmp_path / "t", "--", SUBJECT, "count", 20_000_000), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while not (children := Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()):
        time.sleep(0.01)
    program = int(children[0])
    while not any(path.stat().st_size >= 10_000 for path in tmp_path.glob("t.*.part")):
        time.sleep(0.01)
    started.send_signal(signal.SIGSTOP)
    before = -1
    while (now := cpu_time(program)) != before:  # until it waits
        before = now
        time.sleep(0.3)
    os.kill(program, signal.SIGSTOP)
    time.sleep(4)
    os.kill(program, signal.SIGCONT)
    time.sleep(0.2)
    started.send_signal(signal.SIGCONT)
    out, errors = started.communicate()
    assert started.returncode == 0 and out == "done\n" and "LOST" not in errors, errors
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][100] == 20_000_000


def test_a_thread_that_others_are_quicker_than(tmp_path: Path) -> None:
    """The collector is slow, and for each chunk that it gives back a thousand threads wait: nobody gives up."""
    started = subprocess.Popen(command(tmp_path / "t", "--", SUBJECT, "crowd", 28_000 // PART), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("t.*.part")):
        time.sleep(0.01)
    while started.poll() is None:
        before = cpu_time(started.pid)
        started.send_signal(signal.SIGSTOP)
        time.sleep(1)
        started.send_signal(signal.SIGCONT)
        while started.poll() is None and cpu_time(started.pid) == before:  # a tick of work
            time.sleep(0.001)
    out, errors = started.communicate()
    assert started.returncode == 0 and out == "done\n" and "LOST" not in errors, errors
    assert read(tmp_path / "t")["sizes"][100] == 28_000_000 // PART


def test_a_program_that_writes_over_what_is_shared(tmp_path: Path) -> None:
    """It goes on, whatever becomes of its trace. (It waited for chunks that could not come.)"""
    done = record(tmp_path / "t", "--", SUBJECT, "scribble", 2_000_000)
    assert done.stdout == "done\n" and " LOST" in done.stderr
    assert read(tmp_path / "t")["complete"]


def test_a_full_disk(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    done = record(tmp_path / "t", "--level=-7", "--", SUBJECT, "relay", 600_000, preexec_fn=limit)
    assert "done" in done.stdout and "File too large; the program goes on" in done.stderr and " LOST" in done.stderr
    assert (tmp_path / "t").stat().st_size <= 300_000
    trace = read(tmp_path / "t")
    assert trace["summary"]["events"] > 1000


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))

    done = record(tmp_path / "t", "--", SUBJECT, "count", preexec_fn=limit)
    assert "done" in done.stdout and "is not recorded: " in done.stderr and "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_the_trace_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("t")
    (tmp_path / "t").write_text("old")
    record(tmp_path / "link", "--", SUBJECT, "exec", "200")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "t", "t.exec1"]
    assert (tmp_path / "link").is_symlink() and read(tmp_path / "link")["sizes"][100] == 500


def test_the_old_trace_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    """Issue 16."""
    (tmp_path / "t").write_text("old")
    (tmp_path / "t").chmod(0o640)
    record(tmp_path / "t", "--", "/nowhere/x", status=127)
    assert [path.name for path in tmp_path.iterdir()] == ["t"] and (tmp_path / "t").read_text() == "old"
    started = subprocess.Popen(command(tmp_path / "t", "--", "cat"), stdin=subprocess.PIPE)
    while not list(tmp_path.glob("t.*.part")):
        time.sleep(0.01)
    assert (tmp_path / "t").read_text() == "old"
    started.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["t"] and (tmp_path / "t").stat().st_mode & 0o777 == 0o640
    assert_whole(read(tmp_path / "t"))


def test_the_output_is_not_what_the_program_is_or_reads(tmp_path: Path) -> None:
    """Issue 16: it was cut to nothing before the program began."""
    shutil.copy("/bin/cat", tmp_path / "cat")
    (tmp_path / "data").write_text("data")
    (tmp_path / "link").symlink_to("data")
    os.link(tmp_path / "data", tmp_path / "hard")
    for output, *program in (("cat", "cat", "/dev/null"), ("data", "cat", "data"), ("link", "cat", "data"),
                             ("data", "cat", "hard"), ("hard", "cat", "link")):
        words = [str(tmp_path / word) if not word.startswith("/") else word for word in program]
        said = record(tmp_path / output, "--", *words, status=125).stderr
        assert f"{tmp_path / output}: is read" in said
    assert (tmp_path / "data").read_text() == "data" and (tmp_path / "cat").stat().st_size > 10_000


def test_memory_that_is_locked_and_address_space_that_is_limited(tmp_path: Path) -> None:
    assert "done" in record(tmp_path / "t", "--", SUBJECT, "lock").stdout

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = record(tmp_path / "t", "--", "sh", "-c", f"ulimit -v 500000; exec {SUBJECT} count 50000")
    assert "done" in done.stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["sizes"][100] == 50000


@pytest.mark.parametrize(("arguments", "status", "message"), [
    (["-o", "/nowhere/t", "--", "ls"], 125, "/nowhere/t: No such file or directory"),
    (["-o", "/", "--", "ls"], 125, "/: Is a directory"),
    (["-o", "/dev/null", "--", "/nowhere/program"], 125, "/dev/null: no regular file"),
    (["-o", "{tmp}/t", "--", "/nowhere/program"], 127, "/nowhere/program: No such file or directory"),
    (["-o", "{tmp}/t", "--", "/etc/passwd"], 126, "/etc/passwd: Permission denied"),
    (["-o", "{tmp}/t", "--allocator", "nonsense", "--", "ls"], 125, "no allocator is called nonsense"),
    (["-o", "{tmp}/t", "--allocator", "/etc/passwd", "--", "ls"], 125, "/etc/passwd: no 64-bit ELF library"),
    (["-o", "{tmp}/t", "--stacks", "some", "--", "ls"], 2, "--stacks"),
    (["-o", "{tmp}/t"], 2, "PROGRAM"),
])
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    filled = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    done = subprocess.run([str(COMMAND), "record", *filled], capture_output=True, text=True)
    assert done.returncode == status and message in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    record(tmp_path / "t", "--", SUBJECT, "count", env={**os.environ, "TMPDIR": str(tmp_path)})
    record(tmp_path / "u", "--", "/nowhere/x", env={**os.environ, "TMPDIR": str(tmp_path)}, status=127)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_static_program_is_told_from_one_without_allocations(tmp_path: Path) -> None:
    source = tmp_path / "s.c"
    source.write_text("int main(void) { return 4; }\n")
    subprocess.run(["cc", "-static", source, "-o", tmp_path / "s"], check=True)
    done = record(tmp_path / "t", "--", tmp_path / "s", status=4)
    assert "nothing was recorded" in done.stderr and not (tmp_path / "t").exists()


def test_without_a_collector_it_is_only_in_the_way(tmp_path: Path) -> None:
    done = subprocess.run([SUBJECT, "functions"], capture_output=True, text=True, env={
        **os.environ, "LD_PRELOAD": f"{BUILD}/lib/libcoffer_record.so:{places.library()}",
        "COFFER_RECORD_SOCKET": str(tmp_path / "none")})
    assert done.returncode == 0 and done.stdout == "done\n" and done.stderr == ""


def test_a_program_that_becomes_another_user(tmp_path: Path) -> None:
    """The collector takes the records of whoever got its token by the environment, and of nobody else."""
    if os.getuid() != 0:
        pytest.skip("only root may become another user")
    tmp_path.chmod(0o755)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    said = record(tmp_path / "t", "--children", "--", *nobody, "sh", "-c", "/bin/echo hi; /bin/echo ho").stderr
    assert "/echo" in said and len(list(tmp_path.glob("t.[0-9]*"))) == 2
    assert read(tmp_path / "t")["information"]["program"].endswith("sh")
    stranger = ("import os, socket, struct; token, path = os.environ['COFFER_RECORD_SOCKET'].split(':', 1); "
                "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(path); "
                "hello = struct.pack('<IIQ32s1096x', 0xC0FFE203, 0, 1 << 40, {}); "
                "s.send(hello); print(len(s.recv(100)))")
    for token, answer in (("token.encode()", "24"), ("b'0' * 32", "0")):
        done = record(tmp_path / "u", "-q", "--", "/usr/bin/python3", "-S", "-c", stranger.format(token))
        assert done.stdout.strip() == answer


def test_a_program_with_a_malloc_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text("#include <stdlib.h>\nextern void *__libc_malloc(size_t);\n"
                      "void *malloc(size_t n) { return __libc_malloc(n); }\n"
                      "int main(void) { return malloc(9) == 0; }\n")
    subprocess.run(["cc", "-fno-builtin", source, "-o", tmp_path / "own"], check=True)
    assert "brings its own malloc" in record(tmp_path / "t", "--", tmp_path / "own").stderr
    assert "brings its own malloc" not in record(tmp_path / "t", "--", "true").stderr


def test_run(tmp_path: Path) -> None:
    def run(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([str(COMMAND), "run", *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done

    assert "libcoffer.so" in run("--", "cat", "/proc/self/maps").stdout
    assert run("sh", "-c", "echo $0", "--version").stdout == "--version\n", "options after the program are its own"
    assert run("sh", "-c", "exit 5", status=5).stdout == ""
    assert "nonsense" in run("--conf", "nonsense:1", "true").stderr
    assert "/nowhere/x: No such file" in run("/nowhere/x", status=127).stderr
    script = tmp_path / "script"
    script.write_text("echo $1")
    script.chmod(0o755)
    assert run(script, "by the shell").stdout == "by the shell\n"
    assert run("/etc/passwd", status=126).stderr.startswith("coffer run: ")
