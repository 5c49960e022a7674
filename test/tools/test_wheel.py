# SPDX-License-Identifier: MIT
"""The wheel that pip makes, in an environment of its own, with no checkout in sight: every sub-command works there.

The wheel has what is built already (COFFER_WHEEL_FROM), and the environment takes the packages that it needs from
build/venv. COFFER_WHEEL_LONG=1: as a user does it instead, `pip install` of a clean copy of the sources, which compiles
everything and fetches packages: minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from coffer import places

ROOT = Path(__file__).resolve().parents[2]
BUILD_DIR = places.build_dir()
BUILT_PYTHON = BUILD_DIR / "venv" / "bin" / "python"
LONG = os.environ.get("COFFER_WHEEL_LONG") == "1"
PROGRAM = "import json; kept = [json.loads('[' + '1,' * 5000 + '2]') for _ in range(40)]; print(len(kept))"


def run(*command: object, status: int = 0, cwd: Path | None = None, **environment: str) -> str:
    """Both streams of a command whose environment has nothing of this build."""
    clean = {name: value for name, value in os.environ.items()
             if name not in {"PYTHONPATH", "LD_PRELOAD"} and not name.startswith("COFFER_")}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          cwd=cwd, env=clean | environment, timeout=1500)
    assert done.returncode == status, done.stdout
    return done.stdout


def sources(folder: Path) -> Path:
    """As a clean clone has them."""
    skipped = shutil.ignore_patterns("build*", ".git", "__pycache__")
    return Path(shutil.copytree(ROOT, folder / "sources", ignore=skipped, symlinks=True))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if LONG:
        pytest.skip("the long form installs from the sources")
    folder = tmp_path_factory.mktemp("wheel")
    run(BUILT_PYTHON, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index",
        "--no-build-isolation", "--wheel-dir", folder, "--config-settings",
        f"cmake.define.COFFER_WHEEL_FROM={BUILD_DIR.resolve()}", ROOT)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    here = folder / "venv"
    if LONG:
        run(sys.executable, "-m", "venv", here)
        run(here / "bin" / "pip", "install", "--quiet", sources(folder))
        return here
    run(sys.executable, "-m", "venv", "--without-pip", here)
    run(BUILT_PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", here / "bin" / "python",
        "install", "--no-deps", "--no-index", request.getfixturevalue("wheel"))
    (packages,) = here.glob("lib/python3*/site-packages")
    (built,) = (BUILD_DIR / "venv").resolve().glob("lib/python3*/site-packages")
    (packages / "needed.pth").write_text(f"{built}\n")
    return here


@pytest.fixture(scope="module")
def coffer(environment: Path) -> Path:
    return environment / "bin" / "coffer"


@pytest.fixture(scope="module")
def trace(coffer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trace")
    said = run(coffer, "record", "-o", "program.trace", "--", sys.executable, "-S", "-c", PROGRAM, cwd=place)
    assert said.startswith("40\n") and "records" in said
    return place / "program.trace"


def test_what_the_wheel_says_and_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        (licence,) = [archive.read(name).decode() for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    assert licence == (ROOT / "LICENSE").read_text()
    assert wheel.name == f"coffer-{places.version()}-py3-none-linux_{os.uname().machine}.whl"
    assert f"\nVersion: {places.version()}\n" in metadata
    for wanted in ("coffer/box/lib/libcoffer.so", "coffer_bench/allocators.py", "coffer/report/page.html.j2"):
        assert wanted in names
    recorders = {path.name for path in (BUILD_DIR / "lib").glob("libcoffer_record*.so")}
    place = BUILD_DIR / "libexec" / "coffer"
    programs = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()} - {"trace_sample"}
    programs = {name for name in programs if not name.startswith("simulate_")}
    assert len(recorders) >= 2 and len(programs) >= 8
    preloaded = recorders | {"libcoffer_moments.so", "libcoffer_python.so"}
    assert {f"coffer/box/lib/{name}" for name in preloaded} <= set(names)
    assert {f"coffer/box/libexec/coffer/{name}" for name in programs} <= set(names)
    assert any(name.endswith(".data/data/share/man/man1/coffer-record.1") for name in names)
    assert not any("simulate_" in name or "test" in name or name.endswith((".a", ".cpp", ".hpp")) for name in names)


def test_what_it_needs_is_what_was_tested() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = re.findall(r"^\S+==\S+$", (ROOT / "tools/requirements.txt").read_text(), re.MULTILINE)
    assert len(needed["project"]["dependencies"]) > 5
    assert set(needed["project"]["dependencies"]) <= set(pinned)
    pinned += re.findall(r"^\S+==\S+$", (ROOT / "tools/requirements-test.txt").read_text(), re.MULTILINE)
    assert set(needed["build-system"]["requires"]) <= set(pinned)


def test_run(coffer: Path, tmp_path: Path) -> None:
    """Under the wheel's own library, and with nothing changed in the program's environment but LD_PRELOAD."""
    said = run(coffer, "run", "--", "sh", "-c", "grep -m1 -o '[^ ]*libcoffer.so' /proc/self/maps; env", cwd=tmp_path,
               PYTHONPATH="/nowhere").splitlines()
    assert said[0].endswith("/coffer/box/lib/libcoffer.so")
    assert f"LD_PRELOAD={said[0]}" in said and "PYTHONPATH=/nowhere" in said
    assert not any(line.startswith("COFFER") for line in said)
    assert run(coffer, "--version") == f"coffer {places.version()}\n"


def test_traces(coffer: Path, trace: Path, tmp_path: Path) -> None:
    assert "threads" in run(coffer, "trace", "info", trace, cwd=tmp_path)
    run(coffer, "trace", "cut", trace, "-o", "part.trace", "--events", "0:500", cwd=tmp_path)
    run(coffer, "trace", "export", "part.trace", "-o", "part.parquet", cwd=tmp_path)
    assert (tmp_path / "part.parquet").read_bytes()[:4] == b"PAR1"


def test_replay_and_report(coffer: Path, trace: Path, tmp_path: Path) -> None:
    said = json.loads(run(coffer, "replay", trace, "-a", "coffer,glibc,hoard", "--json", "-", cwd=tmp_path))
    assert [one["allocator"] for one in said["results"]] == ["coffer", "glibc", "hoard"]
    assert len({json.dumps(one["operations"]) for one in said["results"]}) == 1
    said = run(coffer, "replay", trace, "-a", "mimalloc3", cwd=tmp_path, status=1)
    assert "builds it in a checkout, which has it then by its path, CHECKOUT/build/peers/target/release/" in said
    run(coffer, "report", trace, "-a", "none", "-o", "page.html", cwd=tmp_path)
    assert "<html" in (tmp_path / "page.html").read_text()


def test_live(coffer: Path, tmp_path: Path) -> None:
    busy = "import time; end = time.time() + 1\nwhile time.time() < end: list(range(9999))"
    said = run(coffer, "stat", "--json", "--interval", 0.1, "--", sys.executable, "-S", "-c", busy, cwd=tmp_path)
    assert any(json.loads(line)["figures"]["live"] > 0 for line in said.splitlines() if line.startswith("{"))
    assert "there is no process" in run(coffer, "top", 2**22 + 1, status=1)
    said = run(coffer, "profile", "--rate", "16K", "-o", "heap.pb.gz", "--", sys.executable, "-S", "-c", PROGRAM,
               cwd=tmp_path)
    assert "a sample each 16.0K" in said and (tmp_path / "heap.pb.gz").stat().st_size > 0


def test_bench_wants_a_checkout(coffer: Path, tmp_path: Path) -> None:
    for words in (["bench", "list"], ["bench", "--quick"], ["bench", "report", "x.jsonl"]):
        assert "needs a checkout" in run(coffer, *words, cwd=tmp_path, status=2)
    assert "Measures Coffer" in run(coffer, "bench", "--help")


def test_manual_and_completions(environment: Path) -> None:
    share = environment / "share"
    assert (share / "man/man1/coffer.1").is_file()
    for name in ("bash-completion/completions/coffer", "zsh/site-functions/_coffer",
                 "fish/vendor_completions.d/coffer.fish"):
        assert "coffer" in (share / name).read_text()
