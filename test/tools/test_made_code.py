# SPDX-License-Identifier: MIT
"""Functions that are made at run time: what /tmp/perf-PID.map says of them, and of whom it is believed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coffer.heap import owners, stacks
from coffer.profile import made_code, proto
from in_process import run

SEEDED = Path(__file__).parent / "seeded"
NOBODY = 4194999  # a number that no process has
MAP = Path(f"/tmp/perf-{NOBODY}.map")
NODE, JAVA, JAVAC = shutil.which("node"), shutil.which("java"), shutil.which("javac")


@pytest.fixture(autouse=True)
def clean(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The maps that these tests make go."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    yield
    for path in (*Path("/tmp").glob("perf-*.map"), MAP):
        if path == MAP or "rowing" in path.read_text(errors="replace"):
            path.unlink(missing_ok=True)


def test_forms() -> None:
    found = made_code.Map("""\
7f0010 20 JS:*handleRequest /srv/shop.js:10:23
7f0030 8 LazyCompile:~ file:///srv/shop.mjs:1:1
0x00007f0040 0x0000000010 int shop.Basket.add(int, java.lang.String)
7f0050 10 void shop.Basket.<init>(int[])
7f0060 10 Interpreter
no line of it
7f0060 10 Builtin:ArrayMap
7f0070 10 odd\x1b[31m
7f0010 10 JS:^again node:internal/fs:7:9
""")
    assert found.at(0x7F0010) == found.at(0x7F001F) == ("again", "node:internal/fs", 7), "the last that was said"
    assert found.at(0x7F0020) is None and found.at(0x7F000F) is None and found.at(0x7F0080) is None
    assert found.at(0x7F0037) == ("(anonymous)", "/srv/shop.mjs", 1)
    assert found.at(0x7F0040) == ("shop.Basket.add", "", 0) and found.at(0x7F0050) == ("shop.Basket.<init>", "", 0)
    assert found.at(0x7F0060) == ("Builtin:ArrayMap", "", 0) and found.at(0x7F0070) == ("odd?[31m", "", 0)


def test_whose_map_is_believed(tmp_path: Path) -> None:
    profile = tmp_path / f"x.{NOBODY}.1.pb.gz"
    profile.touch()
    now = time.time_ns()
    assert made_code.map_of(profile, now) is None, "there is none"
    MAP.write_text("10 10 one\n")
    assert made_code.map_of(profile, now).at(0x10) == ("one", "", 0)
    (tmp_path / f"coffer.{NOBODY}.moment.12.pb.gz").touch()
    assert made_code.map_of(tmp_path / f"coffer.{NOBODY}.moment.12.pb.gz", now) is not None
    assert made_code.map_of(tmp_path / "out.pb.gz", now) is None, "nobody knows of which process it is"
    os.utime(MAP, (1, 1))
    assert made_code.map_of(profile, now) is None, "of an earlier process with that number"
    MAP.unlink()
    (tmp_path / "other").write_text("10 10 one\n")
    MAP.symlink_to(tmp_path / "other")
    assert made_code.map_of(profile, now) is None
    if os.geteuid() == 0:
        MAP.unlink()
        MAP.write_text("10 10 one\n")
        os.chown(MAP, 65534, 65534)
        assert made_code.map_of(profile, now) is None, "another user's"


def test_a_processs_own_start() -> None:
    began = made_code.began_ns(os.getpid())
    assert 0 < time.time_ns() - began < 3600 * 10**9 and made_code.began_ns(NOBODY) is None


def place(function: str, file: str, module: str) -> stacks.Place:
    return stacks.Place(function, file, 1, module)


def test_whose_it_is() -> None:
    engine = place("node::AllocateUninitialized", "", "node")
    inner, own = place("from", "node:buffer", owners.COMPILED), place("serve", "/srv/shop.js", owners.COMPILED)
    assert owners.owner([engine, inner, engine, own, engine], "node") == (owners.PROGRAM, 3)
    assert owners.readable([engine, inner, engine, own, engine]) == (engine, inner, own)
    assert owners.owner([engine, inner], "node") == (owners.PROGRAM, 1), "the library, where there is nothing else"
    assert owners.owner([engine, engine], "node") == (owners.PROGRAM, 0), "without a map as ever"
    addon = place("parse", "parse.cpp", "shop.node")
    assert owners.owner([addon, engine, own], "node") == (owners.PROGRAM, 0)
    assert owners.readable([addon, engine, own]) == (addon, own)
    java = [place(name, "", owners.COMPILED) for name in ("jdk.internal.misc.Unsafe.allocateMemory0", "shop.Basket.add",
                                                         "Interpreter")]
    assert owners.owner([place("os::malloc", "", "libjvm.so"), *java], "java") == (owners.PROGRAM, 2)


@pytest.mark.skipif(NODE is None, reason="no node here")
def test_javascript(tmp_path: Path) -> None:
    done = run("heap", "--rate", "64K", "-o", tmp_path / "out.pb.gz", "--", NODE, "--perf-basic-prof",
               f"--logfile={tmp_path / 'v8.log'}", "--interpreted-frames-native-stack", SEEDED / "growing.js").stdout
    lines = done.splitlines()
    # makeAnswer, or what it was compiled into.
    assert re.search(r"\d\d% from (makeAnswer|handleRequest), growing\.js:(6|10), called by \w+", lines[1]), lines[1]
    assert "← serve  growing.js:16" in done
    assert "serve (growing.js)" in proto.read(tmp_path / "out.pb.gz").names.values()


@pytest.mark.skipif(JAVA is None or JAVAC is None, reason="no Java here")
def test_java(tmp_path: Path) -> None:
    subprocess.run([JAVAC, "-d", tmp_path, SEEDED / "Growing.java"], check=True, timeout=120)
    lines = run("heap", "--rate", "64K", "--", JAVA, "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions",
                "-XX:+DumpPerfMapAtExit", "-Xcomp", "-XX:TieredStopAtLevel=1", "-XX:-Inline", "-cp", tmp_path,
                "Growing").stdout.splitlines()
    assert re.search(r"\d\d% from Growing\.handleRequest, .*, called by Growing\.serve", lines[1]), lines
