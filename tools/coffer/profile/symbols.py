# SPDX-License-Identifier: MIT
"""Names of functions, from the symbol tables of ELF files. Files that are not there, or are others than those that ran
(by build-id), have no names."""

from __future__ import annotations

import bisect
import shutil
import struct
import subprocess
from functools import lru_cache
from pathlib import Path

from coffer.profile.proto import Mapping, Profile

LOAD, NOTE = 1, 4
SYMTAB, DYNSYM = 2, 11
FUNCTION = 2


class Symbols:
    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        if self.data[:5] != b"\x7fELF\x02" or self.data[5] != 1:
            raise ValueError(f"{path}: no 64-bit ELF file")
        self.segments = []
        (offset,) = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        for i in range(count):
            kind, _, at, address, _, length = struct.unpack_from("<IIQQQQ", self.data, offset + i * size)
            self.segments.append((kind, at, address, length))
        self.build_id = self.read_build_id()
        self.path = path
        self.addresses: list[int] = []
        self.functions: list[tuple[int, str]] | None = None  # read when the first is asked for
        self.data = b""  # of many files, and large ones

    def read_functions(self) -> list[tuple[int, str]]:
        self.data = self.path.read_bytes()
        found: dict[int, tuple[int, str]] = {}
        sections, size, count = (*struct.unpack_from("<Q", self.data, 40), *struct.unpack_from("<HH", self.data, 58))
        for i in range(count):
            header = struct.unpack_from("<IIQQQQIIQQ", self.data, sections + i * size)
            if header[1] in (SYMTAB, DYNSYM):
                strings = struct.unpack_from("<IIQQQQ", self.data, sections + header[6] * size)[4]
                self.add_table(found, header[4], header[5], strings)
        self.addresses = sorted(found)
        self.data = b""
        return [found[address] for address in self.addresses]

    def read_build_id(self) -> str:
        for kind, at, _, length in self.segments:
            end = at + length
            while kind == NOTE and at + 12 <= end:
                name, content, what = struct.unpack_from("<III", self.data, at)
                at += 12
                if what == 3 and self.data[at:at + name] == b"GNU\0":
                    at += (name + 3) // 4 * 4
                    return self.data[at:at + content].hex()
                at += (name + 3) // 4 * 4 + (content + 3) // 4 * 4
        return ""

    def add_table(self, found: dict[int, tuple[int, str]], at: int, length: int, strings: int) -> None:
        for name, info, _, _, value, size in struct.iter_unpack("<IBBHQQ", self.data[at:at + length // 24 * 24]):
            if info & 15 == FUNCTION and value and value not in found:
                end = self.data.index(b"\0", strings + name)
                found[value] = (size, self.data[strings + name:end].decode("utf-8", "replace"))

    def address_at(self, offset: int) -> int | None:
        """What the file calls the place at this offset in it."""
        for kind, at, address, length in self.segments:
            if kind == LOAD and at <= offset < at + length:
                return offset - at + address
        return None

    def name_at(self, offset: int) -> str | None:
        """Of the function that lies at this offset in the file."""
        wanted = self.address_at(offset)
        if wanted is None:
            return None
        if self.functions is None:
            try:
                self.functions = self.read_functions()
            except (OSError, ValueError, IndexError, struct.error):
                self.functions = []  # replaced meanwhile, or damaged
        i = bisect.bisect_right(self.addresses, wanted) - 1
        if 0 <= i < len(self.functions) and wanted < self.addresses[i] + max(1, self.functions[i][0]):
            return self.functions[i][1]
        return None


@lru_cache(maxsize=256)
def symbols_of(path: str) -> Symbols | None:
    """Read once: the processes of one run have most files in common."""
    try:
        return Symbols(Path(path))
    except (OSError, ValueError, IndexError, struct.error):
        return None


def read_symbols(mapping: Mapping) -> Symbols | None:
    symbols = symbols_of(mapping.path)
    return symbols if symbols is not None and symbols.build_id == mapping.build_id else None


def is_another(mapping: Mapping) -> bool:
    """Whether the file is there, and was built anew since it ran. Of one whose build-id is not known nobody can say."""
    symbols = symbols_of(mapping.path)
    return symbols is not None and bool(mapping.build_id) and symbols.build_id != mapping.build_id


def demangled(names: list[str]) -> list[str]:
    filter_program = shutil.which("c++filt")
    if filter_program is None or not names:
        return names
    done = subprocess.run([filter_program], input="\n".join(names) + "\n", capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return lines if len(lines) == len(names) else names


def names_of(profile: Profile) -> dict[int, str]:
    """By location; where no function is known, the file and the offset in it."""
    tables = {identity: read_symbols(mapping) for identity, mapping in profile.mappings.items()}
    names: dict[int, str] = {}
    for location, (identity, address) in profile.locations.items():
        mapping = profile.mappings.get(identity)
        if function := profile.lines.get(location) or profile.made.get(location):
            names[location] = f"{function[0]} ({Path(function[1]).name})" if function[1] else function[0]
            continue
        if mapping is None:
            names[location] = f"{address:#x}"
            continue
        offset = address - mapping.begin + mapping.offset
        table = tables[identity]
        name = table.name_at(offset) if table is not None else None
        names[location] = name or f"{Path(mapping.path).name or '[anonymous]'}+{offset:#x}"
    texts = sorted(set(names.values()))
    better = dict(zip(texts, demangled(texts)))
    return {location: better[name] for location, name in names.items()}
