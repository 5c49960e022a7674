# SPDX-License-Identifier: MIT
"""coffer record as a user runs it: what it records, and what it survives."""

from __future__ import annotations

import json
import platform
import signal
import subprocess
from pathlib import Path

import pytest
from recording import (BUILD, BUMP, COMMAND, SUBJECT, SUBJECT_CPP, UNWIND_LIBRARY, UNWIND_SUBJECT, assert_whole,
                       read, record)

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


SMALL_STACKS = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
static struct { unsigned char guard[16384]; char stack[8192]; } s __attribute__((aligned(4096)));
static void* volatile kept;
static ucontext_t back, there;
static void take(int signal) { kept = malloc(100 + signal); free(kept); }
static void body(void) { take(7); }
int main(void) {
  memset(&s.guard, 0xAA, sizeof s.guard);
  stack_t stack = {.ss_sp = s.stack, .ss_size = sizeof s.stack};
  struct sigaction action = {.sa_handler = take, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&stack, 0) != 0 || sigaction(SIGUSR1, &action, 0) != 0) return 2;
  for (int i = 0; i < 3; ++i) raise(SIGUSR1);
  getcontext(&there);
  there.uc_stack.ss_sp = s.stack;
  there.uc_stack.ss_size = 4096;
  there.uc_link = &back;
  makecontext(&there, body, 0);
  swapcontext(&back, &there);
  int changed = 0;
  for (unsigned i = 0; i < sizeof s.guard; ++i) changed += s.guard[i] != 0xAA;
  printf("%d bytes below the stack changed\\n", changed);
}
"""


@pytest.mark.parametrize("stacks", ["unwind", "frames"])
def test_small_stacks_have_room_for_a_walk(tmp_path: Path, stacks: str) -> None:
    """Of a signal handler, 8 KiB as SIGSTKSZ was for long, and of a coroutine, 4 KiB."""
    (tmp_path / "small.c").write_text(SMALL_STACKS)
    subprocess.run(["cc", "-g", "-o", tmp_path / "small", tmp_path / "small.c"], check=True)
    done = record(tmp_path / "t", "--stacks", stacks, "--", tmp_path / "small")
    assert done.stdout == "0 bytes below the stack changed\n"
    assert str(100 + signal.SIGUSR1) in map(str, read(tmp_path / "t")["of_size"])


def test_a_realloc_has_its_own_stack(tmp_path: Path) -> None:
    (tmp_path / "grow.c").write_text("""
#include <stdlib.h>
static void* volatile kept;
__attribute__((noinline)) static void begin(void) { kept = malloc(16); }
__attribute__((noinline)) static void grow(void) { kept = realloc(kept, 500000); }
int main(void) { begin(); grow(); }
""")
    subprocess.run(["cc", "-g", "-O1", "-o", tmp_path / "grow", tmp_path / "grow.c"], check=True)
    record(tmp_path / "t", "--", tmp_path / "grow")
    done = subprocess.run([COMMAND, "heap", "--json", tmp_path / "t"], capture_output=True, text=True, check=True)
    site = json.loads(done.stdout)["sites"][0]
    assert (site["function"], site["bytes"]) == ("grow", 500_000)


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
    # But for what comes after the join, the buffer for "done": whether the other thread had ended by then is chance.
    first, second = ([gap for gap in one if gap[1] != 4096] for one in gaps[:2])
    assert first == second and len(first) > 100, "a program that does the same has the same gaps"
    for thread in (1, 2):
        # Not the first round, which binds names.
        short, long = ([gap for of, size, gap in gaps[0] if (of, size) == (thread, wanted)][2:]
                       for wanted in (2001, 2002))
        assert len(short) == len(long) == 28 and len(set(short)) == len(set(long)) == 1
        assert short[0] < 20 and 1000 < long[0] < 1020, "the program's own, without allocator and recorder"
    loop = [gap for of, size, gap in gaps[2] if of == 2 and size in (2001, 2002)]
    assert loop[4:] == [gap for of, size, gap in gaps[0] if of == 2 and size in (2001, 2002)][4:], "whatever allocates"


@COUNTS
def test_a_program_that_executes_itself_under_valgrind(tmp_path: Path) -> None:
    source = tmp_path / "again.c"
    source.write_text("#include <unistd.h>\n#include <stdio.h>\nint main(int count, char **words) {\n"
                      "  char *again[] = {words[0], \"x\", 0};\n"
                      "  return count > 1 ? puts(\"again\") < 0 : execv(\"/proc/self/exe\", again);\n}\n")
    subprocess.run(["cc", source, "-o", tmp_path / "again"], check=True)
    done = record(tmp_path / "t", "--instructions", "--", tmp_path / "again")
    assert done.stdout == "again\n" and "t has no instruction counts" in done.stderr


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
