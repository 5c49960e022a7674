# SPDX-License-Identifier: MIT
"""A trace as a Parquet file, column by column as the reader gives them."""

from __future__ import annotations

import sys
from pathlib import Path

from coffer.errors import CofferError
from coffer.trace.reader import EVENT, Op, Trace


def write(source: Path, target: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    names = [name for name in EVENT.names if name != "zero"]
    operations = pyarrow.array([op.name.lower() for op in Op])
    fields = [(name, pyarrow.dictionary(pyarrow.int8(), pyarrow.string()) if name == "op"
               else pyarrow.from_numpy_dtype(EVENT[name])) for name in names]
    schema = pyarrow.schema(fields)
    try:
        with Trace(source) as trace, pyarrow.parquet.ParquetWriter(target, schema, compression="zstd") as writer:
            for events in trace:
                columns = [pyarrow.DictionaryArray.from_arrays(pyarrow.array(events["op"].astype("i1")), operations)
                           if name == "op" else pyarrow.array(events[name]) for name in names]
                writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
            if shortfall := trace.describe()["shortfall"]:
                print(f"coffer: {source}: {shortfall}", file=sys.stderr)
    except OSError as error:
        raise CofferError(f"{target}: {error.strerror or error}") from error
