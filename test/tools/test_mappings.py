# SPDX-License-Identifier: MIT
"""Which file a profile's code lies in, where libraries come and go."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from coffer.heap import show, sites, stacks, taken
from coffer.profile import proto, symbols
from in_process import run

TYPES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
Mappings = dict[int, tuple[int, int, str]]


def written(mappings: Mappings, locations: dict[int, tuple[int, int]], when: int = 0) -> bytes:
    """A profile with one block by each location."""
    texts = ["", *TYPES, *(path for _, _, path in mappings.values())]
    content = b"".join(proto.chunk(proto.STRING, text.encode()) for text in texts)
    content += b"".join(proto.chunk(proto.SAMPLE_TYPE, proto.number(1, one)) for one in range(1, 5))
    for identity, (begin, end, path) in mappings.items():
        content += proto.chunk(proto.MAPPING, proto.number(1, identity) + proto.number(2, begin) + proto.number(3, end)
                               + proto.number(5, texts.index(path)))
    for location, (identity, address) in locations.items():
        mapping = proto.number(2, identity) if identity else b""
        content += proto.chunk(proto.LOCATION, proto.number(1, location) + mapping + proto.number(3, address))
        content += proto.chunk(proto.SAMPLE, proto.chunk(1, proto.varint(location))
                               + proto.chunk(2, bytes([1, 8, 1, 8])))
    return content + proto.number(9, when)


PROG, FIRST, SECOND, THIRD = ((0x10, 0x20, "/prog"), (0x100, 0x200, "/libfirst.so"), (0x80, 0x180, "/libsecond.so"),
                              (0x300, 0x400, "/libthird.so"))
MADE = (0x500, 0x600, "")
# Two libraries are unloaded, and another takes the first one's place; functions of all of them come up, that of the
# third one when it is gone; and one lies in code that was made at run time, where a library is loaded later.
MOMENTS = [
    written({1: PROG, 2: FIRST, 3: THIRD, 4: MADE}, {1: (1, 0x15), 2: (2, 0x150), 3: (4, 0x550)}, 1),
    written({1: PROG, 2: SECOND}, {1: (1, 0x15), 2: (2, 0x150), 3: (0, 0x550), 4: (2, 0x160), 5: (0, 0x350)}, 2),
    written({1: PROG, 2: (0x500, 0x580, "/liblate.so"), 3: (0x140, 0x180, "/libsecond.so (deleted)")},
            {1: (1, 0x15), 2: (3, 0x150), 3: (2, 0x550), 4: (3, 0x160), 5: (0, 0x350), 6: (0, 0x999)}, 3)]
NAMES = ["prog+0x5", "libfirst.so+0x50", None, "libsecond.so+0xe0", "libthird.so+0x50", "0x999"]
MADE_NAMES = ["[anonymous]+0x50", "0x550", "0x550"]


def test_code_is_what_it_was_when_it_was_first_seen(tmp_path: Path) -> None:
    moments = [proto.parse(content) for content in MOMENTS]
    proto.settle_mappings(moments)
    for count, made, moment in zip((3, 5, 6), MADE_NAMES, moments):
        expected = [name or made for name in NAMES[:count]]
        assert list(symbols.names_of(moment).values()) == expected
        assert [one.function for location in moment.locations for one in stacks.Names(moments).at(moment, location)
                if location != 3] == [name for name in NAMES[:count] if name]
        assert stacks.Names(moments).at(moment, 3)[0].function == "0x550"
        # Written, it needs no other profile.
        proto.write(tmp_path / "kept.pb.gz", proto.with_functions(moment, symbols.names_of(moment)))
        again = proto.read(tmp_path / "kept.pb.gz")
        assert list(again.names.values()) == expected
        assert again.mappings.items() >= proto.parse(moment.content).mappings.items()
        assert [again.mappings[again.locations[one][0]].path for one in (2, 4, 5) if one <= count] == [
            "/libfirst.so", "/libsecond.so", "/libthird.so"][:max(1, count - 2)]


def test_files_of_one_process_are_seen_together(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.pb.gz" for number in range(3)]
    for path, content in zip(paths, MOMENTS):
        proto.write(path, content)
    last = taken.of_files(paths[::-1]).last
    assert symbols.names_of(last)[2] == "libfirst.so+0x50" and symbols.names_of(last)[5] == "libthird.so+0x50"
    # The program lies elsewhere: that was another process.
    proto.write(paths[0], written({1: (0x20, 0x30, "/prog"), 2: FIRST}, {1: (1, 0x25), 2: (2, 0x150)}, 1))
    assert symbols.names_of(taken.of_files(paths).last)[2] == "libsecond.so (deleted)+0x10"


def test_made_code_at_the_place_of_a_library_is_not_its(tmp_path: Path) -> None:
    moments = [proto.parse(MOMENTS[0]), proto.parse(written({1: PROG, 2: (0x100, 0x200, "")}, {2: (2, 0x150),
                                                                                             7: (2, 0x151)}))]
    moments[1].made = {2: ("answer", "app.js", 3), 7: ("reply", "app.js", 4)}
    proto.settle_mappings(moments)
    assert symbols.names_of(moments[1]) == {2: "libfirst.so+0x50", 7: "reply (app.js)"}


def test_code_without_a_file_is_told_as_such() -> None:
    for content, module, told in ((MOMENTS[0], "code made at run time", "perf-PID.map"),
                                  (MOMENTS[2], "unmapped code", "unloaded")):
        profile = proto.parse(content)
        location = 3 if told == "perf-PID.map" else 6
        profile.samples = [one for one in profile.samples if one[0] == [location]]
        heap = stacks.named([profile])[0]
        found = sites.sites(heap, sites.LIVE)
        assert [one.place.module for one in found] == [module]
        (note,) = show.notes_on(heap, found)
        assert told in note


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_builds_of_one_file_are_told_apart(tmp_path: Path) -> None:
    """Of a library that was built anew while its program ran, what lies at one offset has two names."""
    source, library = tmp_path / "source.c", tmp_path / "lib.so"
    ids = []
    for name in ("before", "after"):
        source.write_text(f"void {name}(void) {{}}\n")
        subprocess.run(["cc", "-shared", "-nostdlib", "-Wl,--build-id", "-o", library, source], check=True)
        symbols.symbols_of.cache_clear()
        ids.append(symbols.Symbols(library).build_id)
    symbols.symbols_of.cache_clear()
    table = symbols.Symbols(library)
    table.functions = table.read_functions()
    (offset,) = (number for number, (_, name) in zip(table.addresses, table.functions) if name == "after")
    assert ids[0] != ids[1] and table.address_at(offset) == offset
    profile = proto.Profile(types=list(TYPES), samples=[([one], [1, 8, 1, 8]) for one in (1, 2)],
                            mappings={one: proto.Mapping(0x10000 * one, 0x10000 * one + 0x8000, 0, str(library),
                                                         ids[one - 1]) for one in (1, 2)},
                            locations={one: (one, 0x10000 * one + offset) for one in (1, 2)})
    names = stacks.Names([profile])
    assert [names.at(profile, one)[0].function for one in (1, 2)] == [f"lib.so+{offset:#x}", "after"]


PLUGIN = """#include <stdlib.h>
void* %s(void) { return malloc(70000); }
"""
# The kernel may put both at one place: then what they allocate from one address is told as the first one's.
FILLER = 'void filler(void) { __asm__(".skip 8192"); }\n'
HOST = """#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** names) {
  for (int i = 1; i + 1 < count; i += 2) {
    void* library = dlopen(names[i], RTLD_NOW);
    if (library == NULL) return puts(dlerror()), 1;
    if (((void* (*)(void))dlsym(library, names[i + 1]))() == NULL || dlclose(library) != 0) return 1;
  }
  return dlopen(names[1], RTLD_NOW | RTLD_NOLOAD) != NULL;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
@pytest.mark.parametrize("command", [["leaks"], ["heap", "--view", "live"]])
def test_code_that_was_unloaded_has_its_name(tmp_path: Path, command: list[str]) -> None:
    arguments = []
    for name in ("first", "second"):
        (tmp_path / f"{name}.c").write_text(FILLER * (name == "second") + PLUGIN % f"leak_in_{name}")
        files = (tmp_path / f"{name}.so", tmp_path / f"{name}.c")
        subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", *files], check=True)
        arguments += [tmp_path / f"{name}.so", f"leak_in_{name}"]
    (tmp_path / "host.c").write_text(HOST)
    subprocess.run(["cc", "-o", tmp_path / "host", tmp_path / "host.c", "-ldl"], check=True)
    done = run(*command, "--", tmp_path / "host", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("first", "second"):
        assert re.search(rf"1 block  leak_in_{name} +{name}\.c:[23]", done.stdout), done.stdout
    assert "not mapped any more" not in done.stdout
