#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and tests Coffer for other processors and C libraries, on this machine. `make test-arch ARCH=...` uses it:

  test_arch.py run ARCH [--jobs N] [--quick]   the platforms of ARCH (aarch64, riscv64, x86_64, or one as aarch64-musl)
  test_arch.py table                           writes the table of docs/reference/platforms.md by what was run

Programs of other processors run under qemu-user. It runs their instructions on this processor, whose order of memory
accesses is stronger than theirs: a missing barrier does not show."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import arch_debian
import arch_kernel

TOP = Path(__file__).resolve().parents[1]
BUILDS = TOP / "build-arch"
DOCUMENT = TOP / "docs" / "reference" / "platforms.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
PAIR_BEGIN, PAIR_END = "<!-- pair: begin -->", "<!-- pair: end -->"
ZIG = "ziglang==0.15.2"  # the first that links dynamic programs of musl
KINDS = ("unit", "property", "stress", "fault", "conformance", "misuse")
# Coffer is told of larger pages (src/os/fake), or the kernel has them.
PAGES = {"": "4 KiB", ".pages_16k": "16 KiB, told", ".pages_64k": "64 KiB, told"}
KERNEL_PAGES = "16 KiB"
# The emulator tells the process so, and places what it maps by it (QEMU_PAGESIZE). No kernel of Debian has 64 KiB.
EMULATED_PAGES = {16384: "16 KiB, emulated", 65536: "64 KiB, emulated"}

# What an emulated process is not or cannot do, by test: it is left out there.
NOT_EMULATED = {
    r"conformance\.(limits|locked)\.": "the limit binds the emulator",
    r"conformance\.(seccomp|sandbox)\.": "qemu-user has no filters of system calls",
    r"conformance\.(simulated|start_up|core_file|glibc_suite)": "of this machine's processor",
    r"conformance\.reclaimer\.|conformance\.contract\.malloc_trim_gives_memory_back$":
        "what is resident is the emulator's as well",
    r"(conformance|misuse)\.every_case_is_registered": "a question to the program's text, answered by the native build",
    r"conformance\.fork\.(spawn|vfork)_": "qemu-user does not run programs that an emulated one executes",
    r"unit\.(exchange|interleavings|os)$": "thousands of children; no instruction of the target; the kernel itself",
    r"unit\.api\.conf_string\.setuid": "needs another user's rights",
    r"conformance\.threads\.|conformance\.lifetime\.(key_destructors|first_allocation)":
        "QEMU 7 keeps 280 KiB of each thread that ended, over any malloc, and these ask what is resident",
    r"stress\.limit": "QEMU 7 takes the source of MREMAP_DONTUNMAP for unmapped, and the program ends by SIGSEGV",
    r"stress\.fork|misuse\.in_a_child|conformance\.fork\.(fork_while_|fork_from_many_|chain_of_|child_goes_on_)":
        "QEMU 7 ends by an assertion of its own in children of programs with threads",
    r"fault\.sweep": "minutes each, and no instruction that other tests lack",
}
NOT_EMULATED_CASES = {
    "Watching.ManyThreadsAndForksAtOnce": "executes itself",
    "MixedPages.TheReclaimerGivesThemBack": "asks what is resident",
    "LimitedHeap.TooSmallForAnythingIsNullAndCanBeRaised": "reserves 16 TiB, of which QEMU 7 keeps a record a page",
    "Check.HasNothingToSayBeforeTheFirstAllocation": "as above",
}
# What a system of nothing but the tests is not, or takes minutes for: its processors are emulated one instruction after
# the other, with the kernel.
NOT_IN_A_SYSTEM = (r"unit\.api\.(no_runtime|conf_string|not_started|wrong_size|fork_order)|misuse"
                   r"|unit\.(interleavings|exchange|config|os)$|stress\.(ring|thread_exit|fork|.*armv8)"
                   r"|conformance\.(limits|fork|threads|signals|dlopen|seccomp)\.")
# QEMU 7 with larger pages: its loader refuses the second of two libraries that are preloaded, whichever it is; and who
# joins the main thread waits for ever, with glibc's malloc, too.
NOT_LARGE_PAGES = (r"not_started\.(kernel_4_14|kernel_unknown)$|not_started\..*\.preloaded$",
                   r"conformance\.lifetime\.main_thread_ends_first$")
# What another C library does not have, or its toolchain.
NOT_MUSL = {
    r"unit\.api\.(operators|replaced|replaced_arrays|catch_only)\.shared|unit\.api\.late_runtime":
        "the C++ runtime is inside the program, where no library reaches it",
    r"misuse\.wrong_size_of_object": "as above",
    r"conformance\.contract\.operator_new_refuses_bad_alignments": "as above",
    r"unit\.api\.conf_string\.\w+_prints_at_exit": "musl writes the first line at once",
    r"conformance\.contract\.malloc_stats_writes_to_a_replaced": "musl's stderr is a constant",
    r"conformance\.contract\.figures_on_the_smallest_stack": "musl's is 2 KiB, too small for its own printf",
    r"conformance\.lifetime\.malloc_before_main": "musl has no .preinit_array",
    r"conformance\.sandbox\.": "the filter lets pass what glibc calls",
    r"conformance\.dlopen\.coffer_": "musl has no room for thread-local variables at a fixed place",
    r"conformance\.reclaimer\.": "musl 1.2.5 lets nobody clone, so there is none",
}
NOT_MUSL_CASES = {
    "Reclaimer.*": "musl 1.2.5 lets nobody clone, so there is none",
    "MixedPages.TheReclaimerGivesThemBack": "as above",
    "Config.EnvironmentIsFoundBeforeLibcSetsIt": "musl sets it first of all",
    "Reserve.GivesAlignedMemoryWithoutAccess": "musl's own malloc maps memory where the test gave it back",
}


@dataclass(frozen=True)
class Platform:
    arch: str
    libc: str
    tests: tuple[str, ...]  # folders of test/, as targets
    quick: tuple[str, ...]  # targets, of which CTest then runs what there is

    @property
    def name(self) -> str:
        return f"{self.arch}-{self.libc}"

    @property
    def build(self) -> Path:
        return TOP / "build" if self.name == "x86_64-glibc" else BUILDS / self.name

    @property
    def emulated(self) -> bool:
        return self.arch != os.uname().machine


ALL = tuple(f"test/{kind}/all" for kind in KINDS)
C_PROGRAM = tuple(f"c_program_{kind}" for kind in ("plain", "shared", "archive", "static"))
UNSUPPORTED = ("not_started_plain", "not_started_static", "other_machine")
# For `make test`: what compiles and runs within two minutes on a free machine.
QUICK = (*C_PROGRAM, *UNSUPPORTED, "conformance_contract", "conformance_lifetime")
MUSL_QUICK = (*C_PROGRAM, *UNSUPPORTED, "fork_order", "conformance_lifetime")
# Unit, property and stress tests of musl are fully static, the others dynamic. Not here: what musl's headers lack.
MUSL = ("test/unit/all", "property_single_thread", "property_many_threads", "stress", "misuse", "conformance_plugin",
        *(f"conformance_{name}" for name in ("contract", "fork", "lifetime", "threads", "signals", "limits", "seccomp",
                                             "dlopen")))
PLATFORMS = (
    Platform("aarch64", "glibc", ALL, QUICK),
    Platform("riscv64", "glibc", ALL, QUICK),
    *(Platform(arch, "musl", (*MUSL, *(("platforms_init",) if arch == "aarch64" else ())), MUSL_QUICK)
      for arch in ("x86_64", "aarch64", "riscv64")),
)


# A line of the emulator's log, and the function that it names.
_EXECUTED = re.compile(r"^Trace \d+: 0x[0-9a-f]+ \[[0-9a-f/]+\] (\w+)")


def fail(text: str) -> None:
    raise SystemExit(f"test_arch: {text}")


def zig() -> Path:
    """The program of the wheel, fetched once. What it compiles of its libraries stays beside it."""
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = os.environ["ZIG_LOCAL_CACHE_DIR"] = str(BUILDS / "zig-cache")
    folder = BUILDS / ZIG.replace("==", "-")
    program = folder / "ziglang" / "zig"
    if not program.is_file():
        print(f"test_arch: fetching {ZIG}", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, ZIG], check=True)
    return program


def musl_loader(arch: str) -> Path | None:
    """musl's loader, which is its C library, too. As it comes from Debian; else as this machine has it."""
    root = arch_debian.unpacked(arch, "^musl$", BUILDS / "debian" / f"musl-{arch}") or Path("/")
    name = f"lib/ld-musl-{arch}.so.1"
    return next((loader.resolve() for loader in (root / name, root / "usr" / name) if loader.exists()), None)


def configuration(platform: Platform, quick: bool) -> list[str]:
    toolchains = TOP / "cmake" / "toolchains"
    options = ["-G", "Ninja", "-DCOFFER_TESTS=ON", "-DCOFFER_WERROR=ON", "-DCMAKE_BUILD_TYPE=Release",
               "-DCMAKE_CXX_FLAGS_RELEASE=-O2", "-DCMAKE_C_FLAGS_RELEASE=-O2",
               f"-DCOFFER_TOGETHER={'ON' if quick else 'OFF'}"]
    if platform.libc == "glibc":
        return [*options, f"-DCMAKE_TOOLCHAIN_FILE={toolchains}/{platform.arch}-linux-gnu.cmake"]
    return [*options, f"-DCMAKE_TOOLCHAIN_FILE={toolchains}/musl.cmake", f"-DCOFFER_ARCH={platform.arch}",
            f"-DCOFFER_ZIG={zig()}", f"-DCOFFER_MUSL_LIBC={musl_loader(platform.arch) or ''}"]


def left_out(platform: Platform) -> str:
    patterns = [*(NOT_EMULATED if platform.emulated else ()), *(NOT_MUSL if platform.libc == "musl" else ())]
    return "|".join(patterns) or "^$"


def environment(platform: Platform, page: int = 0) -> dict[str, str]:
    variables = dict(os.environ)
    if page:
        variables["QEMU_PAGESIZE"] = str(page)
    cases = {**(NOT_EMULATED_CASES if platform.emulated else {}), **(NOT_MUSL_CASES if platform.libc == "musl" else {})}
    if cases:
        variables["GTEST_FILTER"] = "-" + ":".join(cases)
    return variables


def count(junit: Path) -> dict[str, dict[str, Counter[str]]]:
    """Tests by page size and kind: how many passed, failed and were skipped."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name, status = case.get("name", ""), case.get("status", "")
        suffix = next((suffix for suffix in PAGES if suffix and name.endswith(suffix)), "")
        kind = name.split(".")[0]
        result = {"run": "passed", "fail": "failed"}.get(status, "skipped")
        found.setdefault(PAGES[suffix], {}).setdefault(kind, Counter())[result] += 1
    return found


def run_tests(platform: Platform, jobs: int, only: tuple[str, ...] = (), page: int = 0,
              kinds: Iterable[str] = KINDS) -> dict[str, dict[str, Counter[str]]]:
    """By pages and kind. `page`: of the emulated machine, where it is not as everywhere."""
    junit = platform.build / "junit.xml"
    junit.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", platform.build, "--parallel", str(jobs), "--timeout", "600",
               "--output-on-failure", "--output-junit", junit, "-E", left_out(platform), "-L",
               "^(" + "|".join(kinds) + ")$"]
    # Of what was not built nothing can run.
    names = [name for name in built_tests(platform, only) if not re.search(left_out(platform), name)
             and name.split(".")[0] in kinds]
    if page:
        names = [name for name in names if not any(name.endswith(suffix) for suffix in PAGES if suffix)
                 and not re.search("|".join(NOT_LARGE_PAGES), name)]
    if not names:
        fail(f"{platform.name}: no test was built")
    listed = platform.build / "tests.txt"
    listed.write_text("\n".join(names) + "\n")
    subprocess.run([*command, "-R", "^(" + "|".join(map(re.escape, names)) + ")$"], env=environment(platform, page),
                   check=False)
    if not junit.is_file():
        fail(f"{platform.name}: ctest did not finish")
    return count(junit)


def built_tests(platform: Platform, only: tuple[str, ...] = ()) -> list[str]:
    """Names of the tests all of whose files are there; `only`: of those with one of these programs."""
    shown = subprocess.run(["ctest", "--test-dir", platform.build, "--show-only=json-v1"], capture_output=True,
                           text=True, check=True)
    names = []
    for test in json.loads(shown.stdout)["tests"]:
        command = test.get("command", [])
        words = [word for part in command for word in part.split(":") if word.startswith(f"{platform.build}/")]
        if command and words and all(Path(word.split("=")[-1]).exists() for word in words):
            if not only or any(Path(word).name in only for word in words):
                names.append(test["name"])
    return names


def large_pages(platform: Platform) -> dict[str, Counter[str]]:
    """The tests once more on a kernel with pages of 16 KiB; nothing where there is none."""
    kernel = arch_debian.unpacked("aarch64", r"^linux-image-[0-9.]+\+deb[0-9]+-arm64-16k-unsigned$",
                                  BUILDS / "debian" / "kernel-16k", "boot/vmlinuz")
    image = next(kernel.glob("boot/vmlinuz*"), None) if kernel is not None else None
    if image is None or shutil.which("qemu-system-aarch64") is None:
        print("test_arch: no kernel with pages of 16 KiB", flush=True)
        return {}
    names = [name for name in built_tests(platform, only) if not re.search("|".join(NOT_MUSL), name)
             and not re.search(NOT_IN_A_SYSTEM, name)]
    tests = arch_kernel.listed(platform.build, names)
    archive = platform.build / "system.cpio"
    archive.write_bytes(arch_kernel.system(tests, platform.build / "test/platforms/platforms_init",
                                           f"{platform.arch}-linux-gnu-strip", platform.build))
    print(f"test_arch: {platform.name}: {len(tests)} tests on {image.name}", flush=True)
    said = arch_kernel.run(image, archive, platform.build / "system.log", 2400)
    status = arch_kernel.results(said, 16384)
    found: dict[str, Counter[str]] = {}
    for test in tests:
        result = {0: "passed", 77: "skipped"}.get(status.get(test.name, 1), "failed")
        if result == "failed":
            print(f"test_arch: failed with pages of 16 KiB: {test.name} (system.log)", flush=True)
        found.setdefault(test.name.split(".")[0], Counter())[result] += 1
    return found


def instructions(platform: Platform) -> float | None:
    """What a pair of malloc and free takes, by the log of an emulator that runs one instruction at a time: all that is
    executed but the loop of the program, which is main."""
    program = platform.build / "test" / "unit" / "api" / "programs" / "pair_static"
    emulator = shutil.which(f"qemu-{platform.arch}")
    if emulator is None or not program.is_file():
        return None
    counts = []
    for pairs in (1000, 2000):
        log = platform.build / "pair.log"
        # A process that is small takes blocks from holes in shared spans, by other code than the two fast paths.
        subprocess.run(["prlimit", "--as=17179869184", emulator, "-E", "COFFER_CONF=mixed:never", "-singlestep",
                        "-d", "exec,nochain", "-D", log, program, str(pairs)], check=True)
        with log.open() as lines:
            functions = Counter(found[1] for found in map(_EXECUTED.search, lines) if found)
        log.unlink()
        counts.append(functions.total() - functions["main"])
    if counts[1] <= counts[0]:
        fail(f"{platform.name}: found no instructions of malloc and free")
    return (counts[1] - counts[0]) / 1000


def run(platform: Platform, jobs: int, quick: bool, larger: bool, kinds: list[str]) -> bool:
    print(f"test_arch: {platform.name}", flush=True)
    if kinds:
        named = re.compile(rf"(test/)?({'|'.join(kinds)})(\b|_)")
        platform = dataclasses.replace(platform, tests=tuple(filter(named.match, platform.tests)))
    subprocess.run(["cmake", "-S", TOP, "-B", platform.build, *configuration(platform, quick)], check=True,
                   stdout=subprocess.DEVNULL)
    targets = ("coffer_shared", *platform.quick) if quick else ("coffer_libraries", "pair_static", *platform.tests)
    subprocess.run(["cmake", "--build", platform.build, "--parallel", str(jobs), "--target", *targets], check=True)
    chosen = platform.quick if quick else ()
    results = run_tests(platform, jobs, chosen, kinds=kinds or KINDS)
    if larger and platform.name == "aarch64-glibc":
        for page, name in EMULATED_PAGES.items():
            results[name] = run_tests(platform, jobs, chosen, page, kinds or KINDS)[PAGES[""]]
    if not quick and not kinds and platform.name == "aarch64-musl":
        results[KERNEL_PAGES] = large_pages(platform)
    pair = None if quick else instructions(platform)
    part = quick or bool(kinds)
    (platform.build / "results.json").write_text(json.dumps({"quick": part, "pages": results, "pair": pair}, indent=1))
    total: Counter[str] = Counter()
    for kinds in results.values():
        for counts in kinds.values():
            total.update(counts)
    print(f"test_arch: {platform.name}: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped",
          flush=True)
    return total["failed"] == 0 and total["passed"] > 0


def row(name: str, page: str, kinds: dict[str, dict[str, int]]) -> str:
    cells = []
    for kind in KINDS:
        counts = kinds.get(kind, {})
        run_count = counts.get("passed", 0) + counts.get("failed", 0)
        cells.append(f"{counts.get('passed', 0)} of {run_count}" if run_count else "")
    arch, libc = name.split("-")
    return f"| {arch} | {libc} | {page} | " + " | ".join(cells) + " |"


def tests_of(line: str) -> int:
    """How many tests ran, by a row."""
    return sum(map(int, re.findall(r" of (\d+)", line)))


def table(folders: Iterable[Path], before: str) -> str:
    """Rows of what was run, by its results; those of other platforms stay as they are. A part of the tests (--quick)
    takes the place of no row that has more."""
    rows = {tuple(line.split("|")[1:4]): line for line in before.splitlines()[2:] if line.startswith("|")}
    for folder in folders:
        results = json.loads((folder / "results.json").read_text())
        for page, kinds in results["pages"].items():
            line = row(folder.name, page, kinds)
            key = tuple(line.split("|")[1:4])
            if kinds and not (results["quick"] and tests_of(line) < tests_of(rows.get(key, ""))):
                rows[key] = line
    lines = ["| processor | C library | pages | " + " | ".join(KINDS) + " |", "|" + "---|" * (3 + len(KINDS))]
    return "\n".join([*lines, *(rows[key] for key in sorted(rows))])


def pairs(folders: Iterable[Path]) -> str:
    found = {folder.name: json.loads((folder / "results.json").read_text())["pair"] for folder in folders}
    native = Platform("x86_64", "glibc", (), ())  # by what `make test` built
    if (count := instructions(native)) is not None:
        found = {native.name: count, **found}
    lines = ["| processor | C library | instructions | of x86-64's |", "|---|---|---|---|"]
    for name, count in found.items():
        arch, libc = name.split("-")
        base = found.get(f"x86_64-{libc}") or found.get("x86_64-musl")
        if count is not None:
            lines.append(f"| {arch} | {libc} | {count:.1f} | {f'{count / base:.2f}' if base else ''} |")
    return "\n".join(lines)


def replaced(text: str, begin: str, end: str, inside: str) -> str:
    before, rest = text.split(begin)
    return f"{before}{begin}\n{inside}\n{end}{rest.split(end)[1]}"


def lacks(platform: Platform) -> str | None:
    """What of this machine's is missing to build and run it."""
    programs = [f"{platform.arch}-linux-gnu-g++"] if platform.libc == "glibc" else [f"{platform.arch}-linux-gnu-ld"]
    if platform.emulated:
        programs.append(f"qemu-{platform.arch}")
    absent = [name for name in programs if shutil.which(name) is None]
    if absent:
        return f"{' and '.join(absent)}: missing"
    if platform.libc == "musl":
        try:
            zig()
        except subprocess.CalledProcessError:
            return f"{ZIG}: not to be had"
    return None


def write_table() -> None:
    folders = sorted(path.parent for path in BUILDS.glob("*/results.json"))
    if not folders:
        fail("nothing was run")
    text = DOCUMENT.read_text()
    text = replaced(text, BEGIN, END, table(folders, text.split(BEGIN)[1].split(END)[0].strip()))
    if any(json.loads((folder / "results.json").read_text())["pair"] for folder in folders):
        text = replaced(text, PAIR_BEGIN, PAIR_END, pairs(folders))
    DOCUMENT.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("arch", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="a few minutes of it")
    parser.add_argument("--larger-pages", action="store_true",
                        help="aarch64-glibc once more, where the emulator has pages of 16 and 64 KiB")
    parser.add_argument("--kinds", metavar="KIND,...", type=lambda text: text.split(","), default=[],
                        help="builds and runs only these")
    options = parser.parse_args()
    if options.action == "table":
        write_table()
        return 0
    chosen = [platform for platform in PLATFORMS if {platform.arch, platform.name} & set(options.arch)]
    if not chosen:
        fail(f"no platform {' '.join(options.arch)}; there are {', '.join(each.name for each in PLATFORMS)}")
    if missing := next(filter(None, map(lacks, chosen)), None):
        if options.quick:
            print(f"test_arch: skipped: {missing} (tools/setup.sh arch)")
            return 77
        fail(f"{missing} (tools/setup.sh arch)")
    good = [run(platform, options.jobs, options.quick, options.larger_pages, options.kinds) for platform in chosen]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
