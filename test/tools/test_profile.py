# SPDX-License-Identifier: MIT
"""Heap profiles of a program that is known: the file by the protobuf package, names of functions, coffer profile."""

from __future__ import annotations

import gzip
import os
import random
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from coffer import places
from coffer.errors import CofferError
from coffer.profile import proto, symbols

COMMAND = places.build_dir() / "bin" / "coffer"
PROGRAM = Path(os.environ["COFFER_PROFILE_PROGRAM"])
KEPT, PASSED, ZEROED = 20_000 * 1000, 20_000 * 3000, 10_000 * 2000
TYPES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects", "peak_space"]


def run_known(tmp_path: Path, conf: str, *arguments: object, status: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "COFFER_CONF": conf, "LD_PRELOAD": str(places.library())})
    assert done.returncode == status, done.stderr
    return done


def only(tmp_path: Path, pattern: str = "*.pb.gz") -> Path:
    (path,) = tmp_path.glob(pattern)
    return path


def sums(profile: proto.Profile) -> dict[str, list[int]]:
    """By the function that a block was allocated in, as far as it is one of known::."""
    names = symbols.names_of(profile)
    result: dict[str, list[int]] = {}
    for locations, values in profile.samples:
        match = next((found for one in locations if (found := re.match(r"known::(\w+)", names[one]))), None)
        key = match[1] if match else "other"
        result[key] = [a + b for a, b in zip(result.get(key, [0] * len(TYPES)), values)]
    return result


def test_every_block_at_a_mean_of_one_byte(tmp_path: Path) -> None:
    run_known(tmp_path, "profile:true,profile_rate:1")
    profile = proto.read(only(tmp_path))
    assert profile.types == TYPES and profile.period == 1
    found = sums(profile)
    assert found["keep"] == pytest.approx([20_000, KEPT] * 3, rel=0.001)
    assert found["pass"][:4] == pytest.approx([20_000, PASSED, 0, 0], rel=0.001) and found["pass"][4] <= 1
    assert found["zeroed"][:4] == pytest.approx([10_000, ZEROED, 0, 0], rel=0.001) and found["zeroed"][4] <= 2


def test_a_sample_stands_for_what_was_allocated(tmp_path: Path) -> None:
    """60 MB and 64 KiB: 900 samples and more, so one deviation is under 4 %."""
    run_known(tmp_path, "profile:true,profile_rate:64K")
    found = sums(proto.read(only(tmp_path)))
    assert found["keep"][1] == pytest.approx(KEPT, rel=0.3) and found["keep"][3] == found["keep"][1]
    assert found["pass"][1] == pytest.approx(PASSED, rel=0.2) and found["pass"][3] == 0
    assert found["pass"][0] == pytest.approx(20_000, rel=0.2)


# --- The format, by the package that defines it. ---


def message_class():
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    kinds = {"i": 3, "u": 4, "b": 8, "s": 9}  # int64, uint64, bool, string
    shapes = {
        "ValueType": "type:1i unit:2i",
        "Sample": "location_id:1u* value:2i*",
        "Mapping": "id:1u memory_start:2u memory_limit:3u file_offset:4u filename:5i build_id:6i",
        "Line": "function_id:1u line:2i",
        "Location": "id:1u mapping_id:2u address:3u line:4=Line*",
        "Function": "id:1u name:2i system_name:3i filename:4i",
        "Profile": "sample_type:1=ValueType* sample:2=Sample* mapping:3=Mapping* location:4=Location*"
                   " function:5=Function* string_table:6s* time_nanos:9i duration_nanos:10i period_type:11=ValueType"
                   " period:12i comment:13i* default_sample_type:14i",
    }
    for name, fields in shapes.items():
        message = file.message_type.add(name=name)
        for text in fields.split():
            field, number, kind, other, many = re.fullmatch(r"(\w+):(\d+)([iubs]?)=?(\w*)(\*?)", text).groups()
            one = message.field.add(name=field, number=int(number), label=3 if many else 1, type=kinds.get(kind, 11))
            if other:
                one.type_name = f".p.{other}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("p.Profile")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


@pytest.mark.parametrize("named", [False, True])
def test_the_file_is_what_profile_proto_says(tmp_path: Path, named: bool) -> None:
    run_known(tmp_path, "profile:true,profile_rate:16K")
    path = only(tmp_path)
    if named:
        profile = proto.read(path)
        proto.write(path, proto.with_functions(profile, symbols.names_of(profile)))
    parsed = message_class().FromString(gzip.decompress(path.read_bytes()))
    text = parsed.string_table
    assert text[0] == "" and [text[one.type] for one in parsed.sample_type] == TYPES
    assert [text[one.unit] for one in parsed.sample_type] == ["count", "bytes"] * 3
    assert text[parsed.default_sample_type] == "inuse_space"
    (comment,) = parsed.comment
    when = int(re.fullmatch(r"the highest moment: (\d+) ns after sampling began", text[comment])[1])
    assert 0 < when <= parsed.duration_nanos
    assert (text[parsed.period_type.type], text[parsed.period_type.unit]) == ("space", "bytes")
    assert parsed.period == 16 * 1024 and parsed.time_nanos > 1.6e18 and parsed.duration_nanos > 0
    mappings = {one.id: one for one in parsed.mapping}
    locations = {one.id: one for one in parsed.location}
    assert len(mappings) == len(parsed.mapping) and len(locations) == len(parsed.location) and 0 not in locations
    for location in parsed.location:
        mapping = mappings[location.mapping_id]
        assert mapping.memory_start <= location.address < mapping.memory_limit
        assert len(location.line) == named
    own = [one for one in parsed.mapping if text[one.filename] == str(PROGRAM)]
    assert own and text[own[0].build_id] == symbols.Symbols(PROGRAM).build_id != ""
    for sample in parsed.sample:
        assert len(sample.value) == len(TYPES) and all(one in locations for one in sample.location_id)
        assert 0 <= sample.value[2] <= sample.value[0] and 0 <= sample.value[3] <= sample.value[1]
    if named:
        functions = {one.id: text[one.name] for one in parsed.function}
        assert any("known::keep" in name for name in functions.values())
        assert all(line.function_id in functions for location in parsed.location for line in location.line)


# --- Switching, dumping. ---


def test_by_api(tmp_path: Path) -> None:
    run_known(tmp_path, "", "api", tmp_path / "mine.gz")
    found = sums(proto.read(tmp_path / "mine.gz"))
    assert found["keep"][3] == pytest.approx(KEPT, rel=0.001)
    assert found["pass"][1] == pytest.approx(PASSED, rel=0.001), "the last one came after the stop"
    run_known(tmp_path, "", "api", "/nonexistent/mine.gz", status=5)


def test_by_signal(tmp_path: Path) -> None:
    dump, toggle = int(signal.SIGRTMIN) + 8, int(signal.SIGRTMIN) + 9
    run_known(tmp_path, f"profile:true,profile_rate:1,dump_signal:{dump},profile_to:{tmp_path}/x", "signal", dump)
    at_signal, at_end = (sums(proto.read(path))["pass"] for path in sorted(tmp_path.glob("x.*.gz")))
    assert at_signal[0] == pytest.approx(1001, abs=2) and at_end[0] == pytest.approx(3000, abs=2)
    run_known(tmp_path, f"profile_rate:1,profile_signal:{toggle},leaks:false,profile:false", "signal", toggle)
    # On by the signal: dumps are then the signal's or the interface's, and none was asked for.
    assert len(list(tmp_path.glob("*.gz"))) == 2


def test_a_fork_child_writes_its_own(tmp_path: Path) -> None:
    run_known(tmp_path, "profile:true,profile_rate:1", "fork")
    profiles = [sums(proto.read(path)) for path in tmp_path.glob("*.pb.gz")]
    assert len(profiles) == 2
    parent, child = sorted(profiles, key=lambda one: one["pass"][0])
    assert parent["pass"][0] == pytest.approx(20_000, rel=0.001)
    assert child["pass"][0] == pytest.approx(40_000, rel=0.02)


def test_a_killed_program_writes_none(tmp_path: Path) -> None:
    run_known(tmp_path, "profile:true", "killed", status=-9)
    assert list(tmp_path.iterdir()) == []


def test_leaks(tmp_path: Path) -> None:
    errors = run_known(tmp_path, "leaks:true,profile_rate:1").stderr
    match = re.search(r"leaks: (\d+) bytes in (\d+) blocks from\n((?:coffer:   .*\n)+)", errors)
    assert match and int(match[1]) == pytest.approx(KEPT, rel=0.001)
    assert int(match[2]) == pytest.approx(20_000, rel=0.001)
    assert f"{PROGRAM}+0x" in match[3].splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_no_place_to_write(tmp_path: Path) -> None:
    errors = run_known(tmp_path, "profile:true,profile_to:/nonexistent/x").stderr
    assert errors.count("coffer: the heap profile could not be written") == 1


# --- coffer profile. ---


def run(*arguments: object, status: int = 0, **more: object) -> subprocess.CompletedProcess:
    done = subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_the_command(tmp_path: Path) -> None:
    output = tmp_path / "out.pb.gz"
    done = run("profile", "-o", output, "--rate", "16K", "--", PROGRAM)
    lines = done.stdout.splitlines()
    assert "live; a sample each 16.0K" in lines[0] and "known::keep" in lines[2]
    profile = proto.read(output)
    assert len(profile.names) == len(profile.locations), "a name for every location, for speedscope shows no others"
    again = run("profile", output, "--show", "alloc").stdout
    assert "known::pass" in again and proto.read(output).names == profile.names


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "no.pb.gz").write_bytes(b"nothing")
    (tmp_path / "cut.pb.gz").write_bytes(gzip.compress(b"\x0a\xff"))
    assert "not a heap profile" in run("profile", tmp_path / "no.pb.gz", status=1).stderr
    assert "not a heap profile" in run("profile", tmp_path / "cut.pb.gz", status=1).stderr
    assert "No such file" in run("profile", tmp_path / "missing.pb.gz", status=1).stderr
    (tmp_path / "empty.pb.gz").touch()
    assert "the file is empty" in run("profile", tmp_path / "empty.pb.gz", status=1).stderr
    # A file that cannot be a program was meant to be a profile.
    (tmp_path / "text").write_text("nothing")
    assert "text: not a heap profile" in run("profile", tmp_path / "text", status=1).stderr
    assert "No such file" in run("profile", "--", tmp_path / "missing", status=127).stderr
    assert "no such directory" in run("profile", "-o", "/nonexistent/x", "--", "true", status=1).stderr
    assert "coffer heap --pid" in run("profile", 4321, status=1).stderr, "a running process is asked by that"
    for rate in ("fast", "0", "", "K", "2T", "٣"):
        assert "--rate" in run("profile", "--rate", rate, "--", "true", status=1).stderr
    assert "wrote no profile" in run("profile", "--", PROGRAM, "killed", 1, status=137, cwd=tmp_path).stderr


# --- coffer profile, interrupted. ---

ENDS_LATE = """import signal, sys, time
def end(number, frame):
    time.sleep(1)  # longer than Python waits for a child that is interrupted with it
    sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, end)
print("ready", flush=True)
while True:
    time.sleep(0.01)"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_an_interrupted_program_writes_is_kept(tmp_path: Path, how: signal.Signals) -> None:
    # At the usual rate an interpreter that does so little may have no sample.
    command = [COMMAND, "profile", "--rate", "4K", "-o", tmp_path / "out.pb.gz", "--", sys.executable, "-c", ENDS_LATE]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    assert started.stdout.readline() == "ready\n"
    if how is signal.SIGINT:
        os.killpg(started.pid, how)  # as a terminal does
    else:
        started.send_signal(how)
    out, errors = started.communicate(timeout=60)
    assert started.returncode == 7, errors
    assert f"coffer: {tmp_path}/out.pb.gz\n" in errors and "live; a sample each" in out
    assert proto.read(tmp_path / "out.pb.gz").names


def test_what_is_written_is_kept_while_names_are_looked_for(tmp_path: Path) -> None:
    filter_program = tmp_path / "bin" / "c++filt"
    filter_program.parent.mkdir()
    filter_program.write_text(f"#!/bin/sh\necho began >{tmp_path}/began\nexec sleep 60\n")
    filter_program.chmod(0o755)
    os.mkfifo(tmp_path / "began")
    started = subprocess.Popen([COMMAND, "profile", "-o", tmp_path / "out.pb.gz", "--", PROGRAM, "fork"],
                               stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert (tmp_path / "began").read_text() == "began\n"
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == 130, errors
    assert f"interrupted; 2 profiles are kept, the last as {tmp_path}/out.pb.gz" in errors and "Traceback" not in errors
    found = [proto.read(path) for path in tmp_path.glob("out.pb.gz*")]
    assert len(found) == 2 and all(one.types == TYPES and one.samples for one in found)


def test_several_profiles_of_a_process(tmp_path: Path) -> None:
    dump = int(signal.SIGRTMIN) + 8
    run("profile", "-o", tmp_path / "out.pb.gz", "--rate", 1, "--show", "none", "--", PROGRAM, "signal", dump,
        env={**os.environ, "COFFER_CONF": f"dump_signal:{dump}"})
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 2, "one by the signal, one at the end"
    # The same by a program that asks twice.
    again = tmp_path / "again"
    again.mkdir()
    script = f"import os; [os.kill(os.getpid(), {dump}) for _ in range(2)]"
    run("profile", "-o", again / "out.pb.gz", "--rate", "4K", "--show", "none", "--", sys.executable, "-c", script,
        env={**os.environ, "COFFER_CONF": f"dump_signal:{dump}"})
    assert len(list(again.iterdir())) == 3


def test_no_room_for_the_profile(tmp_path: Path) -> None:
    errors = run("profile", "-o", "/dev/full", "--", PROGRAM, status=1,
                 env={**os.environ, "TMPDIR": str(tmp_path)}).stderr
    match = re.search(r"/dev/full: No space left on device: the profile is (\S+)\n", errors)
    assert match and proto.read(Path(match[1])).types == TYPES


def test_an_old_profile_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    run("profile", "-o", tmp_path / "out.pb.gz", "--show", "none", "--", PROGRAM)
    before = (tmp_path / "out.pb.gz").read_bytes()
    with pytest.raises(CofferError, match="File too large"):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            proto.write(tmp_path / "out.pb.gz", random.Random(1).randbytes(100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "out.pb.gz").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_no_content_breaks_the_reader(tmp_path: Path) -> None:
    run_known(tmp_path, "profile:true,profile_rate:64K")
    content = gzip.decompress(only(tmp_path).read_bytes())
    seed = int(os.environ.get("SEED", "3"))
    source = random.Random(seed)
    outcomes = {True: 0, False: 0}
    for number in range(int(os.environ.get("ROUNDS", "300"))):
        data = bytearray(content)
        for _ in range(source.randrange(1, 20)):
            data[source.randrange(len(data))] = source.randrange(256)
        path = tmp_path / "mutated"
        path.write_bytes(gzip.compress(bytes(data[:source.randrange(len(data)) if number % 3 == 0 else None]), 1))
        try:
            proto.read(path)
            outcomes[True] += 1
        except CofferError:
            outcomes[False] += 1
        except Exception as error:
            raise AssertionError(f"SEED={seed}, round {number}: {error!r}") from error
    assert outcomes[False] > 50, outcomes
