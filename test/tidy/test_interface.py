# SPDX-License-Identifier: MIT
"""The public interface only grows, and every version is the same version. A fault of each kind is seeded and found.

COFFER_LIB_DIR names the folder with libcoffer.so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import interface
import pytest

ROOT = interface.ROOT
sys.path.insert(0, str(ROOT / "tools"))
import version  # noqa: E402

LIBRARY = Path(os.environ["COFFER_LIB_DIR"]) / "libcoffer.so"
HARDENED_LIBRARY = LIBRARY.with_name("libcoffer_hardened.so")
SYMBOLS = ROOT / "debian/libcoffer0.symbols"
HARDENED_SYMBOLS = ROOT / "debian/libcoffer0-hardened.symbols"
RECORD = interface.recorded(interface.RECORD.read_text())


def test_the_headers_keep_what_is_recorded() -> None:
    assert len(RECORD) >= 127
    assert list(interface.broken(list(RECORD), interface.present())) == []


def test_nothing_is_newer_than_the_version() -> None:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    versions = [numbers(one) for one in RECORD.values()]
    assert versions == sorted(versions), "lines are appended"
    assert versions[-1] <= numbers(version.version())


HEADER = """
#define COFFER_EXPORT __attribute__((visibility("default")))
extern "C" {
/* Figures; of all. */
struct figures {
  size_t live; /* bytes */
  size_t held;
};
struct options {
  int huge;
};
enum kind { KIND_A, KIND_B };
struct hidden;
COFFER_EXPORT int figures_of(struct figures *figures, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *take(size_t size, const struct options *options) COFFER_NOEXCEPT;
}
"""


@pytest.mark.parametrize("old,new,said", [
    ("void *take(size_t size,", "void *take(int size,", "gone or changed: function take"),
    ("COFFER_EXPORT void *take(size_t size, const struct options *options) COFFER_NOEXCEPT;", "", "gone or changed"),
    ("  size_t held;\n", "", "each field of figures has to stay"),
    ("  size_t live;", "  size_t more;\n  size_t live;", "each field of figures has to stay"),
    ("  int huge;\n", "  int huge;\n  int more;\n", "options has more fields, and is not given with its size"),
    ("KIND_A, KIND_B", "KIND_C, KIND_A, KIND_B", "each value of kind has to stay"),
    ("struct hidden;\n", "", "gone or changed: struct hidden"),
    ("  size_t held;\n", "  size_t held;\n  size_t more;\n", "not recorded"),
    ("struct hidden;\n", "struct hidden;\nCOFFER_EXPORT int more(void);\n", "not recorded"),
])
def test_seeded_faults(old: str, new: str, said: str) -> None:
    assert old in HEADER
    found = list(interface.broken(interface.entries(HEADER), interface.entries(HEADER.replace(old, new))))
    assert found and said in found[0], found


def test_what_may_change() -> None:
    entries = interface.entries(HEADER)
    assert len(entries) == 8
    assert list(interface.broken(entries, interface.entries(HEADER.replace("/* bytes */", "/* of blocks */")))) == []
    grown = interface.entries(HEADER.replace("size_t held;", "size_t held; size_t more;"))
    assert not any("size" in line and "more fields" in line for line in interface.broken(entries, grown))


def exported(library: Path) -> set[str]:
    """As a file of symbols of Debian's has them: NAME@NODE, Base for those without a version."""
    listed = subprocess.run(["nm", "--dynamic", "--defined-only", library], check=True, capture_output=True,
                            text=True).stdout
    names = {line.split()[-1].replace("@@", "@") for line in listed.splitlines()}
    return {name if "@" in name else f"{name}@{name if name.startswith('COFFER_') else 'Base'}" for name in names}


def test_symbols_only_grow() -> None:
    """Each symbol of the library is listed with the version that brought it, and none that is listed is gone. The
    hardened build has the same ones and those for clang's tokens, and came later."""
    lines, hardened = (path.read_text().splitlines() for path in (SYMBOLS, HARDENED_SYMBOLS))
    assert hardened == ["libcoffer_hardened.so.0 libcoffer0-hardened #MINVER#", " (symver)COFFER_0 0.3.0",
                        ' (regex)"@Base$" 0.3.0']
    more = exported(HARDENED_LIBRARY) - exported(LIBRARY)
    assert exported(LIBRARY) <= exported(HARDENED_LIBRARY) and len(more) == 51
    assert all(name.startswith("__alloc_token_") and name.endswith("@Base") for name in more)
    assert lines[0] == "libcoffer.so.0 libcoffer0 #MINVER#"
    listed = dict(re.fullmatch(r" (\S+) (\d+\.\d+\.\d+)", line).groups() for line in lines[1:])
    have = exported(LIBRARY)
    assert {"malloc@Base", "COFFER_0@COFFER_0"} <= have and len(have) > 80
    assert set(listed) - have == set(), "no longer exported"
    assert have - set(listed) == set(), f"not in {SYMBOLS.name}"


def test_new_functions_have_a_node_of_their_version() -> None:
    """So that a program which needs one does not start with an older library, and is told why."""
    names = {entry.owner: since for entry, since in RECORD.items() if entry.kind == "function"}
    shared = [symbol.split("@") for symbol in exported(LIBRARY) if symbol.startswith("coffer_")]
    assert len(shared) >= 39
    for name, node in shared:
        since = names[name]
        assert node == ("COFFER_0" if since in {"0.1.0", "0.2.0"} else f"COFFER_{since}"), name


def test_one_version() -> None:
    assert list(version.wrong()) == []


@pytest.mark.parametrize("copy", version.COPIES, ids=lambda copy: copy.path)
def test_another_version_is_found(tmp_path: Path, copy: version.Copy) -> None:
    for path in (version.HEADER, *(one.path for one in version.COPIES)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    version.replace(tmp_path / copy.path, copy.pattern, "9.8.7")
    (found,) = version.wrong(tmp_path)
    assert found.startswith(f"{copy.path} has version 9.8.7")
    version.write("9.8.7", tmp_path)
    assert version.version(tmp_path) == "9.8.7"
    assert [line.split()[0] for line in version.wrong(tmp_path)] == [
        one.path for one in version.COPIES if one.by_hand and one != copy]
