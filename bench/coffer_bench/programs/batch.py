# SPDX-License-Identifier: MIT
"""The programs that run to their end: compilers, interpreters, solvers, a renderer, a database in memory, git."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from coffer_bench.errors import BenchError
from coffer_bench.programs.base import INPUTS, Batch, copy_tree, digest, file_digest, find_program


class Gcc(Batch):
    name, what = "gcc", "g++ -O2 compiles a generated file: driver, cc1plus, assembler"
    binary, package = "g++", "g++"

    def prepare(self, inputs: Path, quick: bool) -> None:
        from inputs import cxx

        (inputs / "large.cpp").write_text("\n".join(cxx.program(1 if quick else 5)))

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        (work / "large.cpp").symlink_to(inputs / "large.cpp")
        return [program, "-std=c++20", "-O2", "-fwrapv", "-c", "large.cpp", "-o", "large.o"]

    def answer(self, stdout: bytes, work: Path) -> str:
        return file_digest(work, "large.o")


class Clang(Gcc):
    name, what = "clang", "LLVM's clang++ -O2 compiles the same file"
    binary, package = "clang++-19|clang++-18|clang++", "clang-19"


class Z3(Batch):
    name, what = "z3", "eight problems: integers, bit vectors, arrays, quantifiers, reals"
    binary, package = "z3", "z3"

    def prepare(self, inputs: Path, quick: bool) -> None:
        from inputs import smt

        problems = list(smt.problems())
        (inputs / "problems.smt2").write_text("\n".join(problems))
        if quick:
            (inputs / "problems.smt2").write_text("\n".join(smt.queens(9)))

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        return [program, str(inputs / "problems.smt2")]

    def answer(self, stdout: bytes, work: Path) -> str:
        answers = [line for line in stdout.decode().splitlines() if line in ("sat", "unsat")]
        if not answers or answers[0] != "sat" or "error" in stdout.decode():
            raise BenchError(f"z3 answers {stdout[:200]!r}")
        return digest(" ".join(answers).encode())


class Ghostscript(Batch):
    name, what = "ghostscript", "renders a page description of four pages to PNG"
    binary, package = "gs", "ghostscript"

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        resolution = 40 if quick else 200
        return [
            program,
            "-q",
            "-dBATCH",
            "-dNOPAUSE",
            "-dSAFER",
            "-sDEVICE=png16m",
            f"-r{resolution}",
            "-o",
            "page%d.png",
            str(INPUTS / "picture.ps"),
        ]

    def answer(self, stdout: bytes, work: Path) -> str:
        if len(list(work.glob("page*.png"))) != 4:
            raise BenchError("ghostscript did not write four pages")
        return file_digest(work, "page*.png")


class Sqlite(Batch):
    name, what = "sqlite3", "a database in memory: rows, two indices, queries that sort, group and join"
    binary, package = "sqlite3", "sqlite3"

    def prepare(self, inputs: Path, quick: bool) -> None:
        """The queries of test/apps over fewer rows."""
        text = (INPUTS / "queries.sql").read_text()
        (inputs / "queries.sql").write_text(text.replace("2000000", "30000" if quick else "250000"))

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        return [program, "-batch", "-bail", ":memory:"]

    def stdin(self, inputs: Path, quick: bool) -> bytes:
        return (inputs / "queries.sql").read_bytes()

    def answer(self, stdout: bytes, work: Path) -> str:
        if stdout.split()[-1:] != [b"ok"]:
            raise BenchError("sqlite3's check of the database does not say ok")
        return digest(stdout)


class Lua(Batch):
    name, what = "lua", "trees, strings, tables, closures and coroutines: every value a block"
    binary, package = "lua5.4", "lua5.4"

    def prepare(self, inputs: Path, quick: bool) -> None:
        text = (INPUTS / "trees.lua").read_text()
        if quick:
            text = re.sub(r"\b18\b", "14", text).replace(
                "{ trees, strings, tables, coroutines, closures }", "{ trees, strings }"
            )
        (inputs / "trees.lua").write_text(text)

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        return [program, str(inputs / "trees.lua")]


PYTHON = """
import collections, json, random, sys
count = int(sys.argv[1])
random = random.Random(5)
words = ["".join(random.choices("abcdefghij", k=random.randint(2, 12))) for _ in range(count)]
index = collections.defaultdict(list)
for number, word in enumerate(words):
    index[word[:3]].append((number, word))
class Node:
    def __init__(self, word):
        self.word, self.left, self.right = word, None, None
root = Node(words[0])
for word in words[1:]:
    node = root
    while True:
        side = "left" if word < node.word else "right"
        below = getattr(node, side)
        if below is None:
            setattr(node, side, Node(word))
            break
        node = below
def walk():
    stack, node = [], root
    while stack or node:
        while node:
            stack.append(node)
            node = node.left
        node = stack.pop()
        yield node.word
        node = node.right
assert list(walk()) == sorted(words)
text = json.dumps({key: value for key, value in sorted(index.items())})
back = json.loads(text)
print(len(text), sum(len(value) for value in back.values()), sum(hash(word) & 1023 for word in words))
"""


class Python(Batch):
    name, what = "python3", "dictionaries, a tree of objects, JSON; PYTHONMALLOC=malloc, so that each object is a block"
    binary, package = "python3", "python3"
    environment = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}

    def prepare(self, inputs: Path, quick: bool) -> None:
        (inputs / "objects.py").write_text(PYTHON)

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        return [program, "-s", "-S", str(inputs / "objects.py"), "8000" if quick else "60000"]


NODE = """
const zlib = require("zlib"), count = +process.argv[2];
let seed = 7, check = 0;
const random = limit => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 256) % limit; };
for (let round = 0; round < 12; ++round) {
  const buffers = [], rows = [];
  for (let i = 0; i < count; ++i) {
    rows.push({ id: i, name: "row " + random(100000), values: [random(10), random(100), random(1000)] });
    if (i % 4 == 0) buffers.push(Buffer.alloc(200 + random(20000), i & 255));
    if (i % 40 == 0) {
      const packed = zlib.deflateSync(JSON.stringify(rows.slice(-200)));
      check = (check * 31 + zlib.inflateSync(packed).length) % 1000000007;
    }
  }
  for (const buffer of buffers) check = (check * 31 + buffer.length + buffer[0]) % 1000000007;
}
console.log(check);
"""


class Node(Batch):
    name, what = "node", "objects, JSON, buffers outside the heap of V8, zlib"
    binary, package = "node", "nodejs"

    def prepare(self, inputs: Path, quick: bool) -> None:
        (inputs / "buffers.js").write_text(NODE)

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        return [program, str(inputs / "buffers.js"), "400" if quick else "3000"]

    def answer(self, stdout: bytes, work: Path) -> str:
        if not stdout.strip().isdigit():
            raise BenchError(f"node prints {stdout[:200]!r}")
        return digest(stdout)


class Git(Batch):
    name, what = "git", "packs all objects of a repository anew, on one thread"
    binary, package = "git", "git"
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}

    def prepare(self, inputs: Path, quick: bool) -> None:
        from inputs.history import Tree

        repository = inputs / "repository"
        repository.mkdir()
        who = {
            f"GIT_{one}_{field}": value
            for one in ("AUTHOR", "COMMITTER")
            for field, value in (
                ("NAME", "A Tester"),
                ("EMAIL", "tester@example.org"),
                ("DATE", "2024-01-02T03:04:05Z"),
            )
        }

        def git(*words: str) -> None:
            subprocess.run(
                [find_program(self.binary, self.package), *words],
                cwd=repository,
                check=True,
                capture_output=True,
                env={"PATH": "/usr/bin:/bin", **self.environment, **who},
            )

        git("init", "--quiet", "--initial-branch=main")
        made = Tree(repository, 150 if quick else 800)
        for number in range(4 if quick else 8):
            if number:
                made.change(number)
            git("add", "--all")
            git("commit", "--quiet", "--message", f"Commit {number}")

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        copy_tree(inputs / "repository" / ".git", work / "repository.git")
        return [
            program,
            "--git-dir",
            "repository.git",
            "-c",
            "pack.threads=1",
            "repack",
            "-a",
            "-d",
            "-f",
            "--quiet",
            "--window=20",
        ]

    def answer(self, stdout: bytes, work: Path) -> str:
        """The name of the pack, which is the hash of the objects that are in it."""
        packs = sorted(path.name for path in (work / "repository.git/objects/pack").glob("*.pack"))
        if len(packs) != 1:
            raise BenchError(f"git left {len(packs)} packs")
        return digest(packs[0].encode())


class RocksDb(Batch):
    name, what = "rocksdb", "db_bench fills a database at random on two threads, reads it back"
    binary, package = "db_bench", "rocksdb-tools"

    def command(self, program: str, inputs: Path, work: Path, quick: bool) -> list[str]:
        count = 15_000 if quick else 120_000
        return [
            program,
            "--benchmarks=fillrandom,readrandom",
            f"--num={count}",
            f"--db={work / 'db'}",
            f"--wal_dir={work / 'db'}",
            "--threads=2",
            "--value_size=100",
            "--compression_type=none",
            "--seed=7",
            f"--write_buffer_size={count * 40}",
            "--disable_wal=1",
            "--stats_interval=1000000000",
        ]

    def answer(self, stdout: bytes, work: Path) -> str:
        """How many keys are found depends on how the threads ran; that each part was done is all that can be said."""
        done = re.findall(rb"^(\w+)\s*:.*ops/sec", stdout, re.MULTILINE)
        if done != [b"fillrandom", b"readrandom"]:
            raise BenchError(f"db_bench did {done}")
        return digest(*done)


BATCH = [Sqlite(), Ghostscript(), Z3(), Gcc(), Clang(), Python(), Lua(), RocksDb(), Node(), Git()]
