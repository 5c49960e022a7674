# SPDX-License-Identifier: MIT
"""What `make run` runs: Python reads its own standard library, parses it, compiles it, makes indexes of it, writes it
out again and forgets it, in phases of which each frees most of what the one before built. Every object of the
interpreter is a block of malloc (PYTHONMALLOC=malloc). Prints digests of what each phase made, the same on every run.
"""

from __future__ import annotations

import ast
import collections
import hashlib
import io
import json
import marshal
import os
import tokenize
from pathlib import Path

BYTES_OF_SOURCE = 6_500_000


def sources() -> dict[str, str]:
    """The first files of the standard library by name, tests left out: they may or may not be installed."""
    top, found, total = Path(os.__file__).parent, {}, 0
    for path in sorted([*top.glob("*.py"), *top.glob("*/*.py")]):
        name = str(path.relative_to(top))
        if total < BYTES_OF_SOURCE and not name.startswith(("test/", "dist-packages/", "idlelib/")):
            found[name] = path.read_text(encoding="utf-8", errors="replace")
            total += len(found[name])
    return found


def say(phase: str, count: int, content: bytes) -> None:
    print(f"{phase:10} {count:9} {hashlib.sha256(content).hexdigest()}")


def every(step: int, items: dict[str, object]) -> list[tuple[str, object]]:
    return sorted(items.items())[::step]


def main() -> None:
    source = sources()
    say("read", len(source), "".join(source.values()).encode())

    trees = {name: ast.parse(text) for name, text in source.items()}
    code = {name: marshal.dumps(compile(tree, name, "exec")) for name, tree in trees.items()}
    say("compile", len(code), b"".join(code.values()))
    del code

    uses = collections.defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                uses[node.id].append([name, node.lineno, node.col_offset])
    text = "\n".join(ast.unparse(tree) for _, tree in every(3, trees))
    say("write", len(uses), text.encode())
    del trees, text

    index = json.dumps(uses, sort_keys=True)
    assert json.loads(index) == uses
    say("index", len(index), index.encode())
    del uses, index

    words: collections.Counter[str] = collections.Counter()
    for _, text in every(3, source):
        words.update(token.string for token in tokenize.generate_tokens(io.StringIO(text).readline))
    say("words", len(words), repr(sorted(words.items())).encode())


main()
