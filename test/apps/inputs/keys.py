# SPDX-License-Identifier: MIT
"""Redis commands that fill a database the same way on every run, as the bytes that redis-cli --pipe takes."""

from __future__ import annotations

import random


def command(*words: str | bytes) -> bytes:
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def value(rng: random.Random) -> bytes:
    """Mostly small, at times a page or many."""
    return rng.randbytes(rng.choice([4, 11, 24, 47, 48, 100, 100, 260, 1000, rng.choice([3000, 20000, 200000])]))


def commands(count: int) -> bytes:
    rng = random.Random(5)
    parts = []
    for number in range(count):
        key = f"{rng.choice('shlzaix')}:{rng.randrange(count // 8)}"
        kind, field = key[0], str(rng.randrange(200))
        if rng.random() < 0.1:
            parts.append(command(rng.choice(["DEL", "UNLINK"]), key))
        elif kind == "s":
            parts.append(command(rng.choice(["SET", "SET", "APPEND"]), key, value(rng)[:30000]))
        elif kind == "h":
            parts.append(command("HSET", key, field, value(rng), "number", str(number)))
        elif kind == "l":
            parts.append(command(rng.choice(["LPUSH", "RPUSH"]), key, value(rng), value(rng)))
        elif kind == "z":
            parts.append(command("ZADD", key, str(rng.randrange(1000)), field, str(number), f"member {number}"))
        elif kind == "a":
            parts.append(command("SADD", key, field, f"member {number}", str(number)))
        elif kind == "i":
            parts.append(command("INCRBY", key, field))
        else:
            parts.append(command("XADD", key, f"{number + 1}-1", "field", value(rng)[:500]))
    # A few large ones, so that tables grow and are rehashed.
    for number in range(30000):
        parts.append(command("HSET", "large:hash", f"field {number}", f"value {number * 7}"))
        parts.append(command("ZADD", "large:zset", str(number * 7919 % 30011), f"member {number}"))
    return b"".join(parts)
