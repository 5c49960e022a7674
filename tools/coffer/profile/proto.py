# SPDX-License-Identifier: MIT
"""Heap profiles as the library writes them (gzipped profile.proto): read, and written again with functions. Only what a
profile has of protocol buffers is known here: varints and bytes."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coffer.errors import CofferError
from coffer.files import whole
from coffer.profile import made_code

MOST_BYTES = 1 << 30
# Comments that the library writes.
PEAK_TIME = re.compile(r"the highest moment: (\d+) ns after sampling began")
OFF = "sampling is off"
SAMPLE_TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING = range(1, 7)


def varint(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def number(number_of_field: int, value: int) -> bytes:
    return varint(number_of_field << 3) + varint(value)


def chunk(number_of_field: int, data: bytes) -> bytes:
    return varint(number_of_field << 3 | 2) + varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise CofferError("the profile is damaged")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
            yield key >> 3, value
        elif key & 7 == 2:
            length, at = read_varint(data, at)
            if length > len(data) - at:
                raise CofferError("the profile is damaged")
            yield key >> 3, data[at:at + length]
            at += length
        else:
            raise CofferError("the profile is damaged")


def packed(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = read_varint(data, at)
        values.append(value)
    return values


@dataclass(frozen=True)
class Mapping:
    begin: int
    end: int
    offset: int
    path: str
    build_id: str


@dataclass
class Profile:
    types: list[str] = field(default_factory=list)
    samples: list[tuple[list[int], list[int]]] = field(default_factory=list)  # locations, values
    mappings: dict[int, Mapping] = field(default_factory=dict)
    locations: dict[int, tuple[int, int]] = field(default_factory=dict)  # mapping, address
    names: dict[int, str] = field(default_factory=dict)  # of a location's function, where it is known
    # Of interpreted functions: name, file, line. They have no mapping, and the library has named them.
    lines: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    last_function: int = 0
    made: dict[int, tuple[str, str, int]] = field(default_factory=dict)  # as lines, of code made at run time
    period: int = 0
    time_ns: int = 0  # when it was written, since 1970
    duration_ns: int = 0  # since sampling began
    peak_ns: int | None = None  # likewise, the highest moment
    is_off: bool = False  # no samples were taken any more when it was written
    content: bytes = b""
    strings: list[str] = field(default_factory=list)


def plain(message: bytes) -> dict[int, int | bytes]:
    return dict(fields(message))


def read(path: Path) -> Profile:
    try:
        packed_bytes = path.read_bytes()
        with gzip.open(path) as file:
            content = file.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CofferError(f"{path}: not a heap profile: {error}") from error
    except OSError as error:
        raise CofferError(f"{path}: {error.strerror or error}") from error
    if not packed_bytes:
        raise CofferError(f"{path}: not a heap profile: the file is empty")
    if len(content) > MOST_BYTES:
        raise CofferError(f"{path}: too large for a heap profile")
    try:
        profile = parse(content)
        name_made_code(profile, path)
        return profile
    except (CofferError, IndexError, TypeError, KeyError, ValueError, AttributeError) as error:
        raise CofferError(f"{path}: not a heap profile, or a damaged one") from error


def name_made_code(profile: Profile, path: Path) -> None:
    """It is in no file; a map that its maker writes may know it."""
    unknown = [(location, address) for location, (identity, address) in profile.locations.items()
               if location not in profile.names
               and (identity not in profile.mappings or not profile.mappings[identity].path)]
    known = made_code.map_of(path, profile.time_ns - profile.duration_ns) if unknown else None
    if known is not None:
        found = {location: known.at(address) for location, address in unknown}
        profile.made = {location: function for location, function in found.items() if function is not None}


def parse(content: bytes) -> Profile:
    profile = Profile(content=content)
    raw: dict[int, list[bytes]] = {kind: [] for kind in range(1, 7)}
    comments: list[int] = []
    for kind, value in fields(content):
        if kind in raw and isinstance(value, bytes):
            raw[kind].append(value)
        elif kind == 12:
            profile.period = int(value)
        elif kind == 9:
            profile.time_ns = int(value)
        elif kind == 10:
            profile.duration_ns = int(value)
        elif kind == 13:
            comments.append(int(value))
    strings = profile.strings = [text.decode("utf-8", "replace") for text in raw[STRING]]
    profile.types = [strings[plain(one).get(1, 0)] for one in raw[SAMPLE_TYPE]]
    for index in comments:
        if match := PEAK_TIME.fullmatch(strings[index]):
            profile.peak_ns = int(match[1])
        profile.is_off |= strings[index] == OFF
    for one in raw[MAPPING]:
        have = plain(one)
        profile.mappings[have[1]] = Mapping(have.get(2, 0), have.get(3, 0), have.get(4, 0),
                                            strings[have.get(5, 0)], strings[have.get(6, 0)])
    functions: dict[int, tuple[str, str]] = {}
    for one in raw[FUNCTION]:
        have = plain(one)
        functions[have[1]] = strings[have.get(2, 0)], strings[have.get(4, 0)]
    profile.last_function = max(functions, default=0)
    for one in raw[LOCATION]:
        have = plain(one)
        profile.locations[have[1]] = (have.get(2, 0), have.get(3, 0))
        if isinstance(have.get(4), bytes):
            line = plain(have[4])
            name, file = functions[line[1]]
            profile.names[have[1]] = name
            if file and 2 not in have:
                profile.lines[have[1]] = name, file, line.get(2, 0)
    for one in raw[SAMPLE]:
        have = plain(one)
        profile.samples.append((packed(have.get(1, b"")), packed(have[2])))
        if len(profile.samples[-1][1]) != len(profile.types):
            raise CofferError("the profile is damaged")
    return profile


def file_of(profile: Profile, location: int) -> Mapping | None:
    mapping = profile.mappings.get(profile.locations[location][0])
    return mapping if mapping is not None and mapping.path else None


def settle_mappings(profiles: list[Profile]) -> None:
    """Of one process, in order of their times. An address lies in the file that was there when it was first seen; a
    later profile may have another one at its place, or none. Of one that comes up when its code is unmapped already, an
    earlier profile may know the file: the latest that does is right, for that one saw it last."""
    first: dict[tuple[int, int], Mapping | None] = {}
    known: dict[Mapping, None] = {}  # the latest last
    for profile in profiles:
        added: dict[Mapping, int] = {}
        for location, (_, address) in profile.locations.items():
            if location in profile.names:
                continue
            own = file_of(profile, location)
            if (location, address) not in first:
                first[location, address] = own if own or location in profile.made else next(
                    (one for one in reversed(known) if one.begin <= address < one.end), None)
            found = first[location, address]
            if found == own:
                continue
            profile.made.pop(location, None)
            identity = added.setdefault(found, max(profile.mappings, default=0) + 1) if found else 0
            if found:
                profile.mappings[identity] = found
            profile.locations[location] = identity, address
        for one in profile.mappings.values():
            if one.path:
                known.pop(one, None)
                known[one] = None


def with_functions(profile: Profile, names: dict[int, str]) -> bytes:
    """The profile's content with a function for each location that has a name here, and none so far; and with the
    mappings that were found since it was read."""
    result = bytearray()
    strings = len(profile.strings)
    functions: dict[str, int] = {}
    mappings = dict(profile.mappings)

    def string(text: str) -> int:
        nonlocal strings
        result.extend(chunk(STRING, text.encode()))
        strings += 1
        return strings - 1

    for kind, value in fields(profile.content):
        if kind == MAPPING and isinstance(value, bytes):
            mappings.pop(plain(value)[1], None)
        if kind == LOCATION and isinstance(value, bytes):
            have = plain(value)
            identity = profile.locations[have[1]][0]
            if identity != have.get(2, 0):
                value = b"".join(chunk(key, one) if isinstance(one, bytes) else number(key, one)
                                 for key, one in fields(value) if key != 2) + number(2, identity)
            name = names.get(have[1])
            if name is not None and 4 not in have:
                identity = functions.setdefault(name, profile.last_function + len(functions) + 1)
                value += chunk(4, number(1, identity))
        result += chunk(kind, value) if isinstance(value, bytes) else number(kind, value)
    for name, identity in functions.items():
        at = string(name)
        result += chunk(FUNCTION, number(1, identity) + number(2, at) + number(3, at))
    for identity, one in mappings.items():
        path, build_id = string(one.path), string(one.build_id)
        result += chunk(MAPPING, number(1, identity) + number(2, one.begin) + number(3, one.end)
                        + number(4, one.offset) + number(5, path) + number(6, build_id))
    return bytes(result)


def write(path: Path, content: bytes) -> None:
    """What is there stays until the new one is whole."""
    with whole(path) as unfinished, unfinished.open("wb") as raw:
        with gzip.GzipFile(path.name, "wb", fileobj=raw) as file:
            file.write(content)
