# SPDX-License-Identifier: MIT
"""The tidy test tested: a clean tree passes, and one seeded violation of each rule is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import cpp_text
import policy
import tidy

LAYER_LINE = ", ".join(f"`{layer}`" for layer in tidy.LAYERS)
CLEAN = {
    "src/base/base.hpp": "#pragma once\n#define COFFER_LIKELY(x) __builtin_expect(!!(x), 1)\n",
    "src/os/os.hpp": '#pragma once\n\n#include "base/base.hpp"\n\nvoid name(const char* text);  // no printf(3)\n',
    "src/pool/pool.hpp": """#pragma once

#include "base/base.hpp"
#include "os/os.hpp"

namespace coffer {

class Pool {
 public:
  Pool(const Pool&) = delete;
  // acquire: pairs with the release in put.
  int get() const { return head_.load(acquire); }
  void put(int value) {
    head_.store(value,
                release);  // pairs with get
  }

 private:
  Atomic<int> head_{0};
};

}  // namespace coffer
""",
    "src/pool/pool.cpp": """#include "pool/pool.hpp"

namespace coffer {

#ifdef COFFER_DEBUG
int g_checks = 0;
#endif

template <class T, bool (*F)(T)>
int pool_size(Pool& pool) {
  // relaxed, throughout: figures for people; a chunk's free() and malloc() in comments and "new (text" are no calls.
  int sum = 0;
  for (int i = 0; i < 10; ++i) {
    pool.free(i);
    sum += pool.head.load(relaxed);
  }
  const auto more = [&](int x) { return x + pool.tail.load(relaxed); };
  name("free() {");
  return more(sum);
}

}  // namespace coffer
""",
    "src/size_class/size_class.cpp": "int size_class();\n",
    "src/config/options.hpp": """#pragma once

#define COFFER_OWN_OPTIONS(SIZE, CHOICE, BOOLEAN) \\
  SIZE(limit, 8 * kMiB, 0, kGiB, "bytes")         \\
  CHOICE(huge, HugePolicy, HugePolicy::automatic, "auto|never", "pages")
""",
    "src/span/span.cpp": """// relaxed, in this file: a walk without other threads.

#include "config/options.hpp"
#include "policy/kept.hpp"
#include "pool/pool.hpp"

// acquire, twice: pairs with put.
int walk(Pool& pool) {
  const int one = pool.one.load(acquire);

  const int two = pool.two.load(acquire);
  return one + two + pool.three.load(relaxed);
}
""",
    "src/policy/kept.hpp": """#pragma once

#include "base/base.hpp"

namespace coffer {

// Bytes that are kept. Chosen by a ring of threads.
inline constexpr usize kKept = usize{64} << 10;
constexpr usize twice(usize bytes) { return bytes == kKept ? 2 * bytes : bytes; }

}  // namespace coffer
""",
    "docs/design/policy.md": "# Policy\n\n| constant | value |\n|---|---|\n| `kKept` | `usize{64} << 10` |\n",
    "src/api/malloc.cpp": '#include "coffer/coffer.h"\n#include "pool/pool.hpp"\n\nvoid f() { free(nullptr); }\n',
    "rt/src/tree.c": '#include "heap.h"\n\n#include <stdint.h>\n\nint tree(void) { return (int)sizeof(int32_t); }\n',
    "README.md": """# A pool

See [the layers](CONTRIBUTING.md#where-things-are-really), [its code](src/pool/pool.hpp "code"), [again](#a-pool-1) and
[elsewhere](https://example.org/none.md#none). `[none](none.md)` is code, src/pool/pool.cpp a file.

```sh
make   # [none](none.md)
```

## A pool
""",
    "Makefile": "# SPDX-License-" "Identifier: MIT\nbuild test:  ## both\n\ttrue\n",
    "tools/coffer/cli.py": "app.command()(replay)\n",
    "bench/coffer_bench/cli.py": "@app.command()\n@guarded\ndef compare() -> None:\n    pass\n",
    "docs/README.md": "# Pages\n\n[Policy](design/policy.md), [using](guide/using.md), [start](start/start.md)\n",
    "docs/start/" "start.md": "# Start\n",
    "docs/guide/using.md": """# Using

`pool_size` in `pool.cpp`, of `src/pool/`, keeps 64 KiB (`kKept`): `make build`, `huge:never`, `COFFER_CONF=limit:1M`.

| option | values | default |
|---|---|---|
| `limit` | 0 to 1G | 8M |
| `huge` | | `auto` |

```sh
build/bin/coffer replay --pool x    # and make, of course
coffer bench compare a b
```

<!-- names of the past -->
There was a `gone_size` of 3 bytes (`kKept`).
<!-- names of the present -->
""",
    "CONTRIBUTING.md": f"# Contributing\n\n## Where *things* are, `really`\n\n{LAYER_LINE}\n",
    "test/unit/test_pool.py": 'def test_pool() -> None:\n    assert len("pool") == 4\n',
}

LICENCE = "// SPDX-License-" "Identifier: MIT\n"
COMMENTS = {".py": LICENCE.replace("//", "#"), ".md": ""}
CLEAN = {path: COMMENTS.get(Path(path).suffix, LICENCE) + text for path, text in CLEAN.items()}

# rule -> path, text to replace there ("" appends), replacement
LONG_FUNCTION = "void long_one() {\n" + "  step();\n" * 85 + "}\n"
LONG_PYTHON = "def long_one() -> None:\n" + "    pass\n" * 85
SEEDS = [
    ("layering", "src/os/os.hpp", '"base/base.hpp"', '"pool/pool.hpp"'),
    ("layering", "src/os/os.hpp", '"base/base.hpp"', '"base.hpp"'),
    ("layering", "src/pool/pool.cpp", '#include "pool/', '#include "coffer/coffer.h"\n#include "pool/'),
    ("layering", "src/odd/odd.cpp", "", LICENCE + "int x;\n"),
    ("file-length", "src/pool/pool.cpp", "", "int x;\n" * 501),
    ("function-length", "src/pool/pool.cpp", "", LONG_FUNCTION),
    ("function-length", "test/unit/test_pool.py", "", LONG_PYTHON),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", "free(pool)"),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", "::malloc(1)"),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", "std::free(pool)"),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", "pool.p = new int"),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", "delete pool.p"),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", 'fprintf(stderr, "x")'),
    ("banned-call", "src/pool/pool.cpp", "pool.free(i)", "name(strerror(i))"),
    ("banned-call", "src/pool/pool.cpp", "int sum = 0;", "std::string sum;"),
    ("banned-call", "src/pool/pool.cpp", '#include "pool/pool.hpp"', '#include "pool/pool.hpp"\n#include <iostream>'),
    ("environment", "src/pool/pool.cpp", "pool.free(i)", 'secure_getenv("COFFER_CONF")'),
    ("atomic-order", "src/pool/pool.hpp", "head_.load(acquire)", "head_.load()"),
    ("atomic-order", "src/pool/pool.hpp", "  // acquire: pairs with the release in put.\n", ""),
    ("atomic-order", "src/pool/pool.cpp", "// relaxed, throughout", "// yes"),
    ("atomic-order", "src/span/span.cpp", "in this file", "in that file"),
    ("atomic-order", "src/span/span.cpp", "// acquire, twice", "// twice"),
    ("atomic-order", "src/pool/pool.hpp", "Atomic<int>", "std::atomic<int>"),
    ("condition", "src/pool/pool.cpp", "    pool.free(i);\n", "#ifdef COFFER_DEBUG\n    pool.free(i);\n#endif\n"),
    ("unfinished", "src/pool/pool.cpp", "figures for people", "TO" "DO: figures"),
    ("machine-path", "test/unit/test_pool.py", '"pool"', '"/ro' 'ot/pool"'),
    ("machine-path", "test/unit/test_pool.py", '"pool"', '"/wo' 'rk/pool"'),
    ("layout", "src/pool/pool.cpp", "int sum = 0;", "int sum = 0; "),
    ("layout", "src/pool/pool.cpp", "int sum = 0;", "int sum = 0;" + " " * 110 + "f();"),
    ("layout", "src/os/os.hpp", "#pragma once\n", ""),
    ("freestanding", "rt/src/tree.c", "<stdint.h>", "<string.h>"),
    ("freestanding", "rt/src/tree.c", '"heap.h"', '"base/base.hpp"'),
    ("freestanding", "rt/src/tree.c", "return (int)", "abort();\n  return (int)"),
    ("licence", "src/pool/pool.cpp", "Identifier: MIT", "Identifier: none"),
    ("dead-link", "README.md", "src/pool/pool.hpp", "src/pool/gone.hpp"),
    ("dead-link", "README.md", "CONTRIBUTING.md#", "CONTRIBUTE" ".md#"),
    ("dead-link", "README.md", "#where-things-are-really", "#where-things-were"),
    ("dead-link", "README.md", "(#a-pool-1)", "(#a-pool-2)"),
    ("dead-link", "README.md", "(#a-pool-1)", "(../above.md)"),
    ("dead-link", "README.md", "src/pool/pool.cpp a file", "src/pool/gone.cpp a file"),
    ("dead-link", "src/pool/pool.cpp", "figures for people", "src/pool/none" ".md"),
    ("dead-link", "src/pool/pool.cpp", "figures for people", "DESIGN" ".md's 3.4"),
    ("drift", "docs/guide/using.md", "`pool_size`", "`pool_length`"),
    ("drift", "docs/guide/using.md", "`pool.cpp`", "`lake.cpp`"),
    ("drift", "docs/guide/using.md", "`src/pool/`", "`src/lake/`"),
    ("drift", "docs/guide/using.md", "64 KiB", "32 KiB"),
    ("drift", "docs/guide/using.md", "(`kKept`): ", "(`kKept`, 65,535): "),
    ("drift", "docs/guide/using.md", "make build", "make builds"),
    ("drift", "docs/guide/using.md", "--pool", "--lake"),
    ("drift", "docs/guide/using.md", "# and make", "coffer_gone"),
    ("drift", "docs/guide/using.md", "coffer replay", "coffer play"),
    ("drift", "docs/guide/using.md", "bench compare", "bench compares"),
    ("drift", "docs/guide/using.md", "huge:never", "huge:maybe"),
    ("drift", "docs/guide/using.md", "=limit:1M", "=limit:2G"),
    ("drift", "docs/guide/using.md", "=limit:1M", "=limits:1M"),
    ("drift", "docs/guide/using.md", "| 8M |", "| 4M |"),
    ("drift", "docs/guide/using.md", "| `auto` |", "| `never` |"),
    ("drift", "docs/guide/using.md", "<!-- names of the past -->\n", ""),
    ("drift", "src/pool/pool.cpp", "figures for people", "see lake/lake.hpp"),
    ("drift", "src/pool/pool.cpp", "figures for people", "see pool_length"),
    ("drift", "src/pool/pool.cpp", "figures for people", "option `limits`"),
    ("drift", "src/pool/pool.cpp", "figures for people", "under huge:maybe"),
    ("orphan", "docs/design/" "other.md", "", "# Other\n"),
    ("wording", "docs/guide/using.md", "# Using\n", "# Using\n\nWhoever reads this.\n"),
    ("wording", "docs/guide/using.md", "# Using\n", f"# Using\n\nThis{' is long' * 30}.\n"),
    ("wording", "src/pool/pool.cpp", "", "\n" + "// Text.\n" * 8 + "// Of whoever asks.\nint x;\n"),
    ("page-length", "README.md", "", "\nMore.\n" * 60),
    ("page-length", "docs/start/" "start.md", "", "\nMore.\n" * 50),
    ("layer-list", "CONTRIBUTING.md", "`heap`, ", ""),
    ("policy", "src/policy/kept.hpp", "Bytes that", "What"),
    ("policy", "src/policy/kept.hpp", "Chosen by", "Not"),
    ("policy", "src/policy/kept.hpp", "{64} << 10", "{65536}"),
    ("policy", "src/policy/kept.hpp", "}  // namespace", "constexpr u32 kOther = 1, kMore = 2;\n}  // namespace"),
    ("policy", "docs/design/policy.md", "|---|---|", "|---|---|\n| `kMiB` | `1` |"),
    ("dead-header", "src/pool/dead.hpp", "", LICENCE + "#pragma once\n"),
]


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_clean_tree_passes(tmp_path: Path) -> None:
    assert tidy.check_tree(write_tree(tmp_path, CLEAN))[0] == []


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed[0]}-{seed[1]}-{seed[3][:20].strip()}")
def test_seeded_violation_is_found(tmp_path: Path, seed: tuple[str, str, str, str]) -> None:
    rule, path, old, new = seed
    before = CLEAN.get(path, "")
    assert old in before
    after = before.replace(old, new, 1) if old else before + new
    violations = tidy.check_tree(write_tree(tmp_path, CLEAN | {path: after}))[0]
    assert {violation.rule for violation in violations} == {rule}
    assert {violation.path for violation in violations} == {path}


OF_TREE = {"dead-link", "drift", "orphan", "policy"}


def test_every_rule_has_a_seed() -> None:
    assert set(tidy.RULES) | OF_TREE | {"dead-header"} == {seed[0] for seed in SEEDS}


def test_empty_gate_fails(tmp_path: Path) -> None:
    violations = tidy.check_tree(tmp_path)[0]
    assert {violation.rule for violation in violations} == set(tidy.RULES) | OF_TREE


def test_policy_has_few_constants(tmp_path: Path) -> None:
    count = policy.MOST - 1  # beside the one of the clean tree
    for more, expected in ((count, set()), (count + 1, {"policy"})):
        names = [f"kMore{index}" for index in range(more)]
        text = "".join(f"// Bytes. Chosen by chance.\ninline constexpr u32 {name} = 1;\n" for name in names)
        header = CLEAN["src/policy/kept.hpp"].replace("}  // namespace", text + "}  // namespace")
        rows = "".join(f"| `{name}` | `1` |\n" for name in names)
        files = {"src/policy/kept.hpp": header, policy.PAGE: CLEAN[policy.PAGE] + rows}
        violations = tidy.check_tree(write_tree(tmp_path, CLEAN | files))[0]
        assert {violation.rule for violation in violations} == expected


def test_functions_are_found() -> None:
    source = cpp_text.parse(CLEAN["src/pool/pool.cpp"])
    assert [(function.name, function.first) for function in cpp_text.functions(source)] == [("pool_size", 10)]
    source = cpp_text.parse("struct [[nodiscard]] A {\n  int x = f({1});\n  A() : x{1}, y(2) {}\n"
                            "  bool operator==(const A& o) const { return x == o.x; }\n};\n"
                            'extern "C" {\nvoid* f(size_t n) noexcept {\n  return g(n);\n}\n}\n'
                            'extern "C" int h(int a = 3) { return a; }\n')
    assert [function.first for function in cpp_text.functions(source)] == [3, 4, 7, 11]
