# SPDX-License-Identifier: MIT
"""service.py PORT: answers GET /task/KEY/SIZE; /check and /limit/BYTES call Coffer where it is preloaded."""

from __future__ import annotations

import asyncio
import collections
import ctypes
import json
import signal
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

KEPT = 300
pool = ThreadPoolExecutor(2)
kept: collections.OrderedDict[int, tuple[dict, bytes]] = collections.OrderedDict()
library = ctypes.CDLL(None)
gate = asyncio.Event()
running = 0  # requests behind the gate


def make(key: int, size: int) -> dict:
    rows = [
        {"id": key * 1000 + i, "name": f"row {i} of {key}", "values": [i % 10, i * 0.5, str(i)]} for i in range(size)
    ]
    return {"key": key, "rows": rows, "index": {row["name"]: row["id"] for row in rows}}


def pack(text: str) -> bytes:
    """On a thread: what it allocates is freed by another one."""
    return zlib.compress(text.encode(), 1)


async def work(key: int, size: int) -> str:
    made = make(key, size)
    packed = await asyncio.get_running_loop().run_in_executor(pool, pack, json.dumps(made))
    kept[key] = (made, packed)
    kept.move_to_end(key)
    while len(kept) > KEPT:
        kept.popitem(last=False)
    back = json.loads(zlib.decompress(packed))
    if back["index"] != made["index"]:
        raise ValueError("what came back is not what was packed")
    return f"{len(packed)} {sum(len(one) for _, one in kept.values())}\n"


async def check() -> str:
    """No other thread may be in Coffer: requests wait at the gate, and those of the pool have nothing to do."""
    gate.clear()
    try:
        for _ in range(1000):
            await asyncio.sleep(0.02)
            if running == 0:
                return f"{library.coffer_check()}\n"
        return "never at rest\n"
    finally:
        gate.set()


def limit(size: int) -> str:
    library.coffer_set_limit.argtypes = [ctypes.c_size_t]
    return f"{library.coffer_set_limit(size)}\n"


async def work_behind_gate(key: int, size: int) -> str:
    global running
    await gate.wait()
    running += 1
    try:
        return await work(key, size)
    finally:
        running -= 1


async def answer(path: str) -> tuple[str, str]:
    words = path.strip("/").split("/")
    try:
        if words[0] == "task":
            return "200 OK", await work_behind_gate(int(words[1]), int(words[2]))
        if words[0] == "check":
            return "200 OK", await check()
        if words[0] == "limit":
            return "200 OK", limit(int(words[1]))
        return "404 Not Found", "nothing here\n"
    except MemoryError:
        return "503 Service Unavailable", "no memory\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            status, body = await answer(head.split()[1].decode())
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, MemoryError):
        pass
    finally:
        writer.close()


async def main() -> None:
    gate.set()
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with server:
        await ended.wait()


asyncio.run(main())
