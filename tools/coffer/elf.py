# SPDX-License-Identifier: MIT
"""What a shared library defines."""

from __future__ import annotations

import struct
from pathlib import Path

from coffer.errors import CofferError

_DYNSYM = 11
_UNDEFINED = 0


def defines(library: Path, symbol: str) -> bool:
    """Whether a 64-bit ELF library has this dynamic symbol of its own."""
    try:
        data = library.read_bytes()
        if data[:5] != b"\x7fELF\x02":
            raise CofferError(f"{library}: no 64-bit ELF library")
        (sections,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + size * index) for index in range(count)]
        for header in headers:
            if header[1] != _DYNSYM:
                continue
            strings = headers[header[6]][4]
            for at in range(header[4], header[4] + header[5], header[9]):
                name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
                end = strings + name + len(symbol)
                if section != _UNDEFINED and data[strings + name:end + 1] == symbol.encode() + b"\0":
                    return True
    except OSError as error:
        raise CofferError(f"{library}: {error.strerror}") from error
    except (struct.error, IndexError) as error:
        raise CofferError(f"{library}: a damaged ELF file") from error
    return False
