#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The project's rules about its own text, as a test: tidy.py [--root DIRECTORY].

Prints one line for each violation and fails if there is any, or if a rule had nothing to look at. CONTRIBUTING.md
gives the rules in words; test_tidy.py seeds a violation of each and sees it found.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import claims
import cpp_text
import documents
import naming
import policy
import wording

LAYERS = ["api", "papers", "latency", "hardened", "inspect", "heap", "exchange", "mixed", "large", "span", "pool",
          "arena", "policy", "size_class", "guard", "budget", "observe", "harden", "config", "os", "cpu", "base"]
# The papers' allocators stand on the ground that they share with Coffer, and use nothing of Coffer itself.
FORBIDDEN_INCLUDES = {("papers", layer) for layer in (
    "latency", "hardened", "inspect", "heap", "exchange", "mixed", "large", "span", "pool", "arena", "policy",
    "size_class", "guard", "budget")}

WARN_FILE_LINES = 400
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_LINE = 120

# Preprocessor conditions inside functions hide paths from the compiler; these folders meet machines and kernels.
CONDITIONS_ALLOWED = {"base", "cpu", "os"}
RAW_ATOMICS_ALLOWED = {"src/base/atomic.hpp", "src/base/byte_atomic.hpp"}

CPP = {".cpp", ".hpp", ".h", ".c"}
TEXT = CPP | {".inc", ".py", ".sh", ".cmake", ".txt", ".in", ".md", ".json", ".map", ".yml", ".sql", ".lua", ".pl",
              ".ps", ".smt2", ".pml", ".vhd", ".rs", ".toml"}
SKIPPED_FOLDERS = re.compile(r"^(build.*|\.git|__pycache__|\.pytest_cache|\.cache)$")


class Violation(NamedTuple):
    path: str
    line: int
    rule: str
    text: str


class File(NamedTuple):
    path: str  # from the root
    text: str

    @property
    def layer(self) -> str:
        """The folder below src/, or "" outside of it."""
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else ""

    @property
    def suffix(self) -> str:
        return Path(self.path).suffix


def read_tree(root: Path) -> list[File]:
    files = []
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(SKIPPED_FOLDERS.match(part) for part in parts[:-1]) or not path.is_file() or path.is_symlink():
            continue
        named = path.suffix in TEXT or path.name in {"Makefile", "run", ".clang-format", ".clang-tidy", ".gitignore"}
        if named:
            files.append(File("/".join(parts), path.read_text(encoding="utf-8")))
    return files


Rule = Callable[[File], Iterator[Violation]]
RULES: dict[str, tuple[Callable[[File], bool], Rule]] = {}


def rule(name: str, applies: Callable[[File], bool]) -> Callable[[Rule], Rule]:
    """Registers a rule and the files it is for. A rule that finds no file to look at is itself a violation."""

    def register(function: Rule) -> Rule:
        RULES[name] = (applies, function)
        return function

    return register


def is_library(file: File) -> bool:
    return bool(file.layer) and file.suffix in CPP


def is_below_api(file: File) -> bool:
    return is_library(file) and file.layer != "api"


@rule("layering", is_library)
def check_layering(file: File) -> Iterator[Violation]:
    if file.layer not in LAYERS:
        yield Violation(file.path, 1, "layering", f"src/{file.layer} is not in the list of layers")
        return
    for number, line in enumerate(file.text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        target = match.group(1)
        layer = target.split("/")[0]
        if layer == "coffer" and file.layer in {"api", "latency"}:
            continue
        if "/" not in target or layer not in LAYERS:
            yield Violation(file.path, number, "layering", f'"{target}": write the path from src/ on')
        elif (LAYERS.index(layer) < LAYERS.index(file.layer)) or (file.layer, layer) in FORBIDDEN_INCLUDES:
            yield Violation(file.path, number, "layering", f"{file.layer} may not include {layer} ({target})")
        elif "os/fake/" in target and "os/fake/" not in file.path:
            yield Violation(file.path, number, "layering", "os/fake is for tests only")


@rule("file-length", lambda file: file.suffix in CPP | {".py", ".sh", ".cmake"})
def check_file_length(file: File) -> Iterator[Violation]:
    lines = file.text.count("\n")
    if lines > MAX_FILE_LINES:
        yield Violation(file.path, lines, "file-length", f"{lines} lines, at most {MAX_FILE_LINES}")


@rule("function-length", lambda file: file.suffix in CPP | {".py"})
def check_function_length(file: File) -> Iterator[Violation]:
    if file.suffix == ".py":
        nodes = ast.walk(ast.parse(file.text))
        spans = [(node.name, node.lineno, node.end_lineno or node.lineno) for node in nodes
                 if isinstance(node, ast.FunctionDef)]
    else:
        spans = list(cpp_function_spans(file))
    for name, first, last in spans:
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield Violation(file.path, first, "function-length",
                            f"{name} has {last - first + 1} lines, at most {MAX_FUNCTION_LINES}")


def cpp_function_spans(file: File) -> Iterator[tuple[str, int, int]]:
    for function in cpp_text.functions(cpp_text.parse(file.text)):
        yield function.name, function.first, function.last


_BANNED_CALL = re.compile(
    r"(?<![\w.:>])(?:std::|::)?("
    r"malloc|calloc|realloc|free|reallocarray|aligned_alloc|posix_memalign|memalign|strdup|strndup|asprintf"
    r"|f?printf|v?s?n?printf|vfprintf|dprintf|f?puts|putchar|fwrite|fopen|fflush|perror|strerror|syslog"
    r"|abort_handler|pthread_create|dlsym|dlopen)\s*\(")
_BANNED_WORD = re.compile(
    r"std::(w?string|ostream|cout|cerr|vector|map|unordered_map|deque|list|set|function|shared_ptr|unique_ptr|mutex"
    r"|thread|to_string)\b|\b(throw|try|catch|dynamic_cast|typeid)\b")
_BANNED_HEADER = re.compile(
    r"#\s*include\s+<(stdio\.h|cstdio|iostream|string|sstream|vector|map|memory|mutex|thread|functional|malloc\.h|new"
    r"|condition_variable|exception|stdexcept)>")
_NEW = re.compile(r"(?<!operator )\bnew\b(?!\s*\()")
_DELETE = re.compile(r"(?<!operator )(?<!= )\bdelete\b")
_ENVIRONMENT = re.compile(r"\b(secure_getenv|getenv|environ|setenv|putenv)\b")


@rule("banned-call", is_below_api)
def check_banned_calls(file: File) -> Iterator[Violation]:
    source = cpp_text.parse(file.text)
    for number, line in enumerate(source.code, 1):
        header = _BANNED_HEADER.search(source.uncommented[number - 1])
        for match in filter(None, (_BANNED_CALL.search(line), _BANNED_WORD.search(line), header, _NEW.search(line),
                                   _DELETE.search(line))):
            yield Violation(file.path, number, "banned-call", f"'{match.group().strip()}' below api/")


@rule("environment", is_library)
def check_environment(file: File) -> Iterator[Violation]:
    if file.layer in {"config", "os"}:
        return
    for number, line in enumerate(cpp_text.parse(file.text).code, 1):
        if _ENVIRONMENT.search(line):
            yield Violation(file.path, number, "environment", "only config/ and os/ read the environment")


_ATOMIC_CALL = re.compile(r"(?:\.|->)(load|store|exchange|compare_exchange\w*|fetch_\w+|test_and_set)\s*\(")
_RAW_ATOMIC = re.compile(r"\bstd::atomic(?!_signal_fence)|\b__atomic_\w+|\b__sync_\w+")
_ORDER = re.compile(r"\b(?:std::)?(?:memory_order_?)?(relaxed|acquire|release|acq_rel|seq_cst|order|success)\b")


def is_explained(source: cpp_text.Source, function_first: int, first: int, last: int, orders: set[str]) -> bool:
    """A comment beside or right above the operation; or one that speaks of its order and stands earlier in the
    function, right above the function, or anywhere if it says "this file"."""
    if any(cpp_text.has_comment(source, line) for line in range(first - 1, last + 1)):
        return True
    while function_first > 1 and source.raw[function_first - 2].lstrip().startswith("//"):
        function_first -= 1
    comments = [(number, line[line.index("//"):]) for number, line in enumerate(source.raw, 1)
                if "//" in line and cpp_text.has_comment(source, number)]
    return any(re.search(rf"\b{order}\b", text) and (function_first <= number <= last or "this file" in text)
               for number, text in comments for order in orders)


@rule("atomic-order", is_library)
def check_atomics(file: File) -> Iterator[Violation]:
    if file.path in RAW_ATOMICS_ALLOWED:
        return
    source = cpp_text.parse(file.text)
    functions = cpp_text.functions(source)
    for number, line in enumerate(source.code, 1):
        if _RAW_ATOMIC.search(line):
            yield Violation(file.path, number, "atomic-order", "use the wrapper types of base/atomic.hpp")
        for match in _ATOMIC_CALL.finditer(line):
            arguments, last = cpp_text.call_text(source, number, match.end() - 1)
            orders = set(_ORDER.findall(arguments))
            if not orders:
                yield Violation(file.path, number, "atomic-order", f"{match.group(1)} without a memory order")
            around = [function.first for function in functions if function.first <= number <= function.last]
            first = cpp_text.statement_start(source, number)
            if not is_explained(source, around[0] if around else first, first, last, orders):
                yield Violation(file.path, number, "atomic-order",
                                f"{match.group(1)}: no comment says why this order, and what it pairs with")


@rule("condition", is_library)
def check_conditions(file: File) -> Iterator[Violation]:
    if file.layer in CONDITIONS_ALLOWED:
        return
    source = cpp_text.parse(file.text)
    for function in cpp_text.functions(source):
        for number in range(function.first, function.last + 1):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else)\b", source.code[number - 1]):
                yield Violation(file.path, number, "condition", f"#if inside {function.name}: use if constexpr")


# Written so that this file does not violate its own rules.
_UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
_MACHINE_PATH = re.compile(r"(?<![\w.$}*-])/(wo" r"rk|ro" r"ot|ho" r"me)(/|\b)")


@rule("unfinished", lambda file: True)
def check_unfinished(file: File) -> Iterator[Violation]:
    for number, line in enumerate(file.text.split("\n"), 1):
        match = _UNFINISHED.search(line)
        if match:
            yield Violation(file.path, number, "unfinished", f"{match.group()}: finish it or open an issue")


@rule("machine-path", lambda file: True)
def check_machine_paths(file: File) -> Iterator[Violation]:
    for number, line in enumerate(file.text.split("\n"), 1):
        if _MACHINE_PATH.search(line):
            yield Violation(file.path, number, "machine-path", "a path of somebody's machine")


@rule("layout", lambda file: True)
def check_layout(file: File) -> Iterator[Violation]:
    lines = file.text.split("\n")
    if file.text and not file.text.endswith("\n"):
        yield Violation(file.path, len(lines), "layout", "no newline at the end")
    if file.suffix == ".hpp" and "#pragma once" not in file.text:
        yield Violation(file.path, 1, "layout", "no #pragma once")
    for number, line in enumerate(lines, 1):
        if line.rstrip() != line:
            yield Violation(file.path, number, "layout", "space at the end of the line")
        if len(line) > MAX_LINE and file.suffix in CPP | {".py", ".cmake", ".sh", ".vhd"} and "://" not in line:
            yield Violation(file.path, number, "layout", f"{len(line)} columns, at most {MAX_LINE}")


_LICENCE = "SPDX-License-" "Identifier: MIT"
_SOURCE = CPP | {".inc", ".py", ".sh", ".cmake", ".in", ".map", ".sql", ".lua", ".pl", ".pml", ".vhd", ".rs", ".toml"}


def carries_licence(file: File) -> bool:
    return file.suffix in _SOURCE or Path(file.path).name in {"CMakeLists.txt", "Makefile", "run"}


@rule("licence", carries_licence)
def check_licence(file: File) -> Iterator[Violation]:
    if _LICENCE not in "\n".join(file.text.split("\n")[:2]):
        yield Violation(file.path, 1, "licence", f"none of the first two lines says {_LICENCE}")


# rt/ stands alone: it knows nothing of src/, and needs a compiler without a C library.
_FREESTANDING_HEADER = re.compile(r"#\s*include\s+<(stdbool|stddef|stdint)\.h>|"
                                  r'#\s*include\s+"([a-z_]+\.h|coffer/coffer_rt\.h)"')
_HOSTED_CALL = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|f?printf|f?puts|abort|exit|assert|memset|memmove"
                          r"|strlen|setjmp|longjmp|alloca)\s*\(")


def is_freestanding(file: File) -> bool:
    return file.path.startswith("rt/src/") and file.suffix in CPP


@rule("freestanding", is_freestanding)
def check_freestanding(file: File) -> Iterator[Violation]:
    source = cpp_text.parse(file.text)
    for number, line in enumerate(source.code, 1):
        if re.match(r"\s*#\s*include\b", line) and not _FREESTANDING_HEADER.search(source.uncommented[number - 1]):
            yield Violation(file.path, number, "freestanding", "only rt/, coffer_rt.h and freestanding headers")
        if match := _HOSTED_CALL.search(line):
            yield Violation(file.path, number, "freestanding", f"'{match.group().strip()}' needs a C library")


def dead_headers(files: list[File]) -> Iterator[Violation]:
    """Headers of src/ that nothing includes."""
    included = set()
    papers = {file.path.split("/")[2] for file in files if file.layer == "papers"} | {""}
    for file in files:
        if file.suffix in CPP:
            included.update(re.findall(r'#\s*include\s+"([^"]+)"', file.text))
        else:
            named = re.findall(r'COFFER_(?:ALLOCATOR|OPTIONS)_HEADER="([^"]+)"', file.text)
            included.update(header.replace("${name}", paper) for header in named for paper in papers)
    for file in files:
        if file.layer and file.suffix == ".hpp" and file.path.removeprefix("src/") not in included:
            yield Violation(file.path, 1, "dead-header", "nothing includes it")


def dead_links(root: Path, files: list[File]) -> Iterator[Violation]:
    """Links of Markdown, and files that a text names, which are not there."""
    pages = {file.path: file.text for file in files if file.suffix == ".md"}
    for path, link, why in documents.dead(root, pages):
        yield Violation(path, link.line, "dead-link", f"{link.target}: {why}")
    folders = {file.path.split("/")[0] for file in files}
    for file in files:
        for name in documents.missing_files(root, file.path, file.text, folders):
            yield Violation(file.path, name.line, "dead-link", f"{name.target}: there is no such file")


def names_and_values(root: Path, files: list[File]) -> Iterator[Violation]:
    """What documents and comments say is in the code is there, and is as they say."""
    texts = {file.path: file.text for file in files}
    paths = ["/".join(path.relative_to(root).parts) for path in root.rglob("*")
             if not any(SKIPPED_FOLDERS.match(part) for part in path.relative_to(root).parts)]
    tree = naming.gather(paths, texts)
    typed = naming.typed(lambda path: texts.get(path, ""))
    constants = claims.constants({path: text for path, text in texts.items()
                                  if path.startswith("src/") and not path.startswith("src/papers/")})
    options = claims.options([texts.get(path, "") for path in ("src/config/options.hpp", "src/config/table.hpp")])
    for file in files:
        found: list[tuple[int, str]] = []
        if file.suffix == ".md":
            found += naming.page_faults(file.path, file.text, tree)
            found += naming.command_faults(file.path, file.text, typed)
            found += naming.example_faults(file.path, file.text, tree)
            found += claims.constant_faults(file.path, file.text, constants)
            found += claims.option_faults(file.path, file.text, options)
            found += claims.default_faults(file.text, options)
        elif file.suffix in CPP and file.path.startswith(("src/", "include/")):
            found += naming.comment_faults(file.text, tree)
            # The papers' allocators have options of their own.
            found += claims.comment_option_faults(file.text, options) if file.layer != "papers" else []
        for line, text in found:
            yield Violation(file.path, line, "drift", text)


MAP = "docs/README.md"


def orphan_pages(files: list[File]) -> Iterator[Violation]:
    """Pages of docs/ that the map does not lead to."""
    links = [link.target.partition("#")[0] for file in files if file.path == MAP for link in documents.links(file.text)]
    for file in files:
        if file.path.startswith("docs/") and file.suffix == ".md" and file.path != MAP:
            if file.path.removeprefix("docs/") not in links:
                yield Violation(file.path, 1, "orphan", f"{MAP} has no link to it")


def policy_constants(files: list[File]) -> Iterator[Violation]:
    headers = {file.path: file.text for file in files if file.layer == "policy"}
    page = next((file.text for file in files if file.path == policy.PAGE), "")
    if not headers:
        yield Violation(".", 0, "policy", "looked at no file: the rule guards nothing")
    for path, line, text in policy.faults(headers, page):
        yield Violation(path, line, "policy", text)


@rule("wording", lambda file: wording.applies(file.path) or is_library(file))
def check_wording(file: File) -> Iterator[Violation]:
    found = wording.comment_faults(file.path, file.text) if is_library(file) else wording.faults(file.text)
    for line, text in found:
        yield Violation(file.path, line, "wording", text)


# The front page, and first pages of at most two screens.
PAGE_LINES = {"README.md": 100, "docs/start/": 80}


@rule("page-length", lambda file: file.path.startswith(tuple(PAGE_LINES)) and file.suffix == ".md")
def check_page_length(file: File) -> Iterator[Violation]:
    most = next(lines for start, lines in PAGE_LINES.items() if file.path.startswith(start))
    if (lines := file.text.count("\n")) > most:
        yield Violation(file.path, lines, "page-length", f"{lines} lines, at most {most}")


@rule("layer-list", lambda file: file.path == "CONTRIBUTING.md")
def check_layer_list(file: File) -> Iterator[Violation]:
    line, named = documents.listed_layers(file.text)
    if named != LAYERS:
        yield Violation(file.path, line, "layer-list", f"the layers are {', '.join(LAYERS)}")


def check_tree(root: Path) -> tuple[list[Violation], list[str]]:
    """All violations, and the files that grow too long."""
    files = read_tree(root)
    violations = [*dead_headers(files), *dead_links(root, files), *names_and_values(root, files), *orphan_pages(files),
                  *policy_constants(files)]
    for name, guarded in (("dead-link", ".md"), ("drift", ".md"), ("orphan", MAP)):
        if not any(file.path.endswith(guarded) for file in files):
            violations.append(Violation(".", 0, name, "looked at no file: the rule guards nothing"))
    for name, (applies, function) in RULES.items():
        chosen = [file for file in files if applies(file)]
        if not chosen:
            violations.append(Violation(".", 0, name, "looked at no file: the rule guards nothing"))
        for file in chosen:
            violations.extend(function(file))
    long_files = [f"{file.path}: {file.text.count(chr(10))} lines" for file in files
                  if file.suffix in CPP | {".py"} and file.text.count("\n") > WARN_FILE_LINES]
    return violations, long_files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    violations, long_files = check_tree(parser.parse_args().root)
    for text in long_files:
        print(f"{text}: warning: longer than {WARN_FILE_LINES}")
    for violation in sorted(violations):
        print(f"{violation.path}:{violation.line}: {violation.rule}: {violation.text}")
    print(f"tidy: {len(RULES)} rules, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
