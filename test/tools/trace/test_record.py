"""coffer record as a user runs it: what it records, and what it survives."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
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
    operations, sizes, stacks, gaps = {}, {}, {}, []
    for events in trace:
        for op, count in zip(*np.unique(events["op"], return_counts=True)):
            operations[Op(op).name] = operations.get(Op(op).name, 0) + int(count)
        asked = events[np.isin(events["op"], (0, 1, 2)) & (events["flags"] == 0)]
        for size, count in zip(*np.unique(asked["size"], return_counts=True)):
            sizes[int(size)] = sizes.get(int(size), 0) + int(count)
        gaps += [(int(event["thread"]), int(event["size"]), int(event["instructions"]))
                 for event in events[(events["flags"] & 8 != 0) & (events["op"] <= 3)]]
        for event in asked[asked["stack"] != 0]:
            stacks[int(event["size"])] = int(event["stack"])
    print(json.dumps({"operations": operations, "sizes": sizes, "of_size": stacks, "gaps": gaps, **trace.describe()}))
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
    assert trace["complete"] and trace["ignored_bytes"] == 0
    assert [trace["summary"][name] for name in ("lost", "unknown_frees", "implied_frees")] == [0, 0, 0]


ALLOCATORS = ["coffer", "glibc", "jemalloc", "tcmalloc", "mimalloc"]


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_every_function_of_c(tmp_path: Path, allocator: str) -> None:
    done = record(tmp_path / "t", "--allocator", allocator, "--", SUBJECT, "functions")
    assert "done" in done.stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    expected = {100: 2, 640: 1, 10: 2, 33: 1, 31: 1}
    assert {size: trace["sizes"].get(size, 0) for size in expected} == expected
    assert trace["operations"]["ALIGNED"] >= 3 and trace["operations"]["REALLOC"] == 1
    assert trace["summary"]["failed"] == 1
    assert ("libcoffer.so" in trace["information"]["allocator"]) == (allocator == "coffer")
    assert trace["information"]["program"] == str(SUBJECT.resolve())
    assert trace["footer"]["end"] == "exited" and trace["footer"]["status"] == "0"


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_every_operator_of_cpp(tmp_path: Path, allocator: str) -> None:
    without = ["without-exception"] if allocator == "mimalloc" else []
    done = record(tmp_path / "t", "--allocator", allocator, "--", SUBJECT_CPP, *without)
    assert "done" in done.stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    expected = {160: 1, 40: 1, 41: 1, 512: 2, 1536: 1, 101: 101}
    assert {size: trace["sizes"].get(size, 0) for size in expected} == expected, "each once, whatever ends in what"


def test_with_options_and_output_untouched(tmp_path: Path) -> None:
    done = record(tmp_path / "t", "--", "sh", "-c", "echo out; echo err >&2; exit 3", status=3)
    assert done.stdout == "out\n" and "err\n" in done.stderr
    assert record(tmp_path / "t", "-q", "--", SUBJECT, "count").stderr == ""


@pytest.mark.parametrize("extra", [[], ["--stacks", "frames"], ["--stacks", "unwind"]])
def test_the_program_sees_nothing(tmp_path: Path, extra: list[str]) -> None:
    plain = subprocess.run([COMMAND, "run", SUBJECT, "look"], capture_output=True, text=True, check=True).stdout
    assert "descriptors" in plain
    assert record(tmp_path / "t", *extra, "--", SUBJECT, "look").stdout == plain


def test_a_stack_names_the_callers(tmp_path: Path) -> None:
    record(tmp_path / "t", "--stacks", "frames", "--", SUBJECT, "stacks")
    trace = read(tmp_path / "t")
    assert_whole(trace)
    frames = trace["stacks"][str(trace["of_size"][12345])]
    modules = trace["modules"][-1]["modules"]
    own = next(module for module in modules if module["path"] == str(SUBJECT.resolve()))
    assert len(own["build_id"]) == 40
    inside = [frame for frame in frames if own["start"] <= frame < own["end"]]
    assert len(inside) >= 3, "inner, outer, main"
    names = subprocess.run(["addr2line", "-f", "-e", SUBJECT,
                            *(hex(frame - 1 - own["start"] + own["offset"]) for frame in inside[:3])],
                           capture_output=True, text=True, check=True).stdout.split("\n")[::2]
    assert names[:3] == ["inner", "outer", "main"]


def names_of(trace: dict, frames: list[int], path: Path) -> list[str]:
    """The functions of those frames that lie in this file."""
    for modules in reversed(trace["modules"]):
        own = [module for module in modules["modules"] if module["path"] == str(path.resolve())]
        inside = [(frame, part) for frame in frames for part in own if part["start"] <= frame < part["end"]]
        if inside:
            names = subprocess.run(["addr2line", "-f", "-e", path,
                                    *(hex(frame - 1 - part["start"] + part["offset"]) for frame, part in inside)],
                                   capture_output=True, text=True, check=True).stdout
            return names.split("\n")[:-1:2]
    return []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="unwind tables are for x86-64")
def test_unwind_tables_follow_what_keeps_no_frame_pointers(tmp_path: Path) -> None:
    assert "done" in record(tmp_path / "t", "--stacks", "unwind", "--", UNWIND_SUBJECT, UNWIND_LIBRARY).stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert trace["information"]["stacks"] == "unwind"

    def chain(size: int, path: Path = UNWIND_SUBJECT) -> list[str]:
        return names_of(trace, trace["stacks"][str(trace["of_size"][size])], path)

    inner, end = ["allocate", "plain_inner"], ["main", "_start"]
    assert chain(1001) == [*inner, "plain_outer", *end]
    assert chain(1002) == [*inner, "plain_outer", "huge_frame", *end]
    assert chain(1003) == [*inner, "plain_outer", "variable_frame", "realigned_frame", "realigned_variable",
                           "many_registers", *end]
    assert chain(1004) == [*inner, "plain_outer", *["recursive"] * 11, *end]
    assert chain(1005) == [*inner, "in_handler", "interrupted", *end], "on the signals' own stack"
    assert chain(1006) == [*inner, "compare", "sort", *end], "through the C library"
    assert chain(1007) == [*inner, "plain_outer", "thread_body"]
    for size in (1008, 1009):
        assert chain(size) == [*inner, *end], "through a library that was loaded later, and again"
        assert chain(size, UNWIND_LIBRARY) == ["loaded_inner", "loaded_outer"]
    frames = record(tmp_path / "f", "--stacks", "frames", "--", UNWIND_SUBJECT)
    assert "done" in frames.stdout
    by_frames = read(tmp_path / "f")
    assert names_of(by_frames, by_frames["stacks"][str(by_frames["of_size"][1002])], UNWIND_SUBJECT) != [
        *inner, "plain_outer", "huge_frame", *end], "the subject has no frame pointers"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="unwind tables are for x86-64")
def test_unwind_tables_while_libraries_come_and_go(tmp_path: Path) -> None:
    assert "done" in record(tmp_path / "t", "--stacks", "unwind", "--", SUBJECT, "loading", 100).stdout
    trace = read(tmp_path / "t")
    assert_whole(trace)
    assert names_of(trace, trace["stacks"][str(trace["of_size"][100])], SUBJECT) == ["churn", "allocates"]
    done = record(tmp_path / "u", "--stacks", "unwind", "--allocator", BUMP, "--", SUBJECT, "signals", 100_000)
    assert "done" in done.stdout and read(tmp_path / "u")["complete"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="unwind tables are for x86-64")
def test_unwind_tables_of_a_whole_interpreter(tmp_path: Path) -> None:
    """Every stack ends where processes begin, so none went astray."""
    record(tmp_path / "t", "--stacks", "unwind", "--depth", "256", "--", "/usr/bin/python3", "-c",
           "import json, decimal; json.loads(json.dumps([{'a': 1}] * 100))")
    trace = read(tmp_path / "t")
    assert_whole(trace)
    ends = {}
    for frames in trace["stacks"].values():
        ends[frames[-1]] = ends.get(frames[-1], 0) + (len(frames) < 256)
    assert max(ends.values()) > 0.95 * sum(ends.values()) > 100


COUNTS = pytest.mark.skipif(not (BUILD / "libexec" / "coffer" / "valgrind").exists(),
                            reason="built without valgrind's libraries")


@COUNTS
def test_instructions_between_calls(tmp_path: Path) -> None:
    gaps = []
    for name, allocator in (("t", "coffer"), ("u", "coffer"), ("v", "glibc")):
        done = record(tmp_path / name, "--instructions", "--allocator", allocator, "--", SUBJECT, "gaps", 30)
        assert "done" in done.stdout and "valgrind" not in done.stderr
        trace = read(tmp_path / name)
        assert_whole(trace)
        assert trace["information"]["instructions"] == "1"
        assert trace["information"]["program"] == str(SUBJECT.resolve())
        assert trace["information"]["arguments"] == "\0".join([str(SUBJECT), "gaps", "30", ""])
        gaps.append(trace["gaps"])
    assert gaps[0] == gaps[1], "a program that does the same has the same gaps"
    for thread in (1, 2):
        # Not the first round, which binds names.
        short, long = ([gap for of, size, gap in gaps[0] if (of, size) == (thread, wanted)][2:]
                       for wanted in (2001, 2002))
        assert len(short) == len(long) == 28 and len(set(short)) == len(set(long)) == 1
        assert short[0] < 20 and 1000 < long[0] < 1020, "the program's own, without allocator and recorder"
    loop = [gap for of, size, gap in gaps[2] if of == 2 and size in (2001, 2002)]
    assert loop[4:] == [gap for of, size, gap in gaps[0] if of == 2 and size in (2001, 2002)][4:], "whatever allocates"


@COUNTS
def test_what_runs_with_instruction_counts(tmp_path: Path) -> None:
    assert "done" in record(tmp_path / "t", "--instructions", "--children", "--", SUBJECT, "fork").stdout
    assert len(list(tmp_path.iterdir())) == 4 and all(read(path)["gaps"] for path in tmp_path.iterdir())
    done = record(tmp_path / "u", "--instructions", "--", "sh", "-c", f"exec {SUBJECT} count 20")
    assert "u has no instruction counts: " in done.stderr
    assert read(tmp_path / "u.exec1")["gaps"] and not read(tmp_path / "u")["gaps"]
    done = record(tmp_path / "v", "--instructions", "--", SUBJECT_CPP, "without-exception")
    assert "done" in done.stdout and read(tmp_path / "v")["gaps"]
    record(tmp_path / "w", "--instructions", "--", "sh", "-c", "exit 3", status=3)
    record(tmp_path / "x", "--instructions", "--", SUBJECT, "kill", 10, status=-signal.SIGKILL)
    assert len(read(tmp_path / "x")["gaps"]) >= 10
    for program, status, said in (("/nowhere/program", 127, "No such file"), ("/etc/passwd", 126, "Permission denied"),
                                  ("/etc", 126, "Permission denied")):
        assert said in record(tmp_path / "y", "--instructions", "--", program, status=status).stderr


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


def test_exec_begins_a_trace_of_its_own(tmp_path: Path) -> None:
    record(tmp_path / "t", "--", SUBJECT, "exec", "200")
    first, second = read(tmp_path / "t.exec1"), read(tmp_path / "t")
    assert_whole(first)
    assert_whole(second)
    assert first["sizes"][100] == 200 and first["footer"]["end"] == "exec"
    assert second["sizes"][100] == 500 and second["footer"]["end"] == "exited"


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
    trace = read(tmp_path / "t")
    assert not trace["complete"] and trace["summary"]["lost"] == 0
    assert trace["sizes"][100] >= 1000 * said > 0


def test_a_full_disk(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    done = record(tmp_path / "t", "--level=-7", "--", SUBJECT, "relay", 300_000, preexec_fn=limit)
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
    (["-o", "{tmp}/t", "--allocator", "nonsense", "--", "ls"], 1, "no allocator is called nonsense"),
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
    assert run("/etc/passwd", status=126).stderr.startswith("coffer run: ")
