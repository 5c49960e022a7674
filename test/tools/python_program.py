# SPDX-License-Identifier: MIT
"""Allocates from all kinds of frames, and says for each block what Python itself says that its stack is. test_python.py
compares that with the heap profile."""
import functools
import itertools
import json
import sys
import threading
import time

BYTES = 6000  # so many that Python asks malloc for them
kept, expected = [None] * 4000, [None] * 4000  # which do not grow
counter = itertools.count()


def stack():
    """Functions and lines, the last call first, without this one."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        found.append([name, code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return found


def hold():
    at = next(counter)
    kept[at] = bytes(BYTES); expected[at] = stack()  # one line, so that both have the same


class Méthode:
    def __init__(self):
        self.held = hold()

    def __del__(self):
        hold()

    def __lt__(self, other):
        hold()
        return False

    @functools.cached_property
    def größe(self):
        hold()
        return 1

    @staticmethod
    def in_static():
        return [hold() for _ in range(2)]


def generator():
    hold()
    yield 1
    hold()
    yield from inner_generator()


def inner_generator():
    hold()
    yield 2


def recursive(depth):
    if depth == 0:
        return hold()
    return recursive(depth - 1)


def through_c(depth):
    """Each step is a call of the interpreter by C."""
    if depth == 0:
        return hold()
    return list(map(through_c, [depth - 1]))


def catches():
    try:
        raise ValueError
    except ValueError:
        hold()
    finally:
        hold()


def leaves(value):
    """What it held is freed, and calls Python, while its frame is cleared."""
    local = value
    value = None
    return local is None


async def coroutine():
    hold()
    import asyncio

    await asyncio.sleep(0)
    await asyncio.gather(later(), later())


async def later():
    import asyncio

    await asyncio.sleep(0.001)
    hold()


def made(number):
    """Functions that are made at run time, and freed: others come to lie where they were."""
    space = {"hold": hold}
    exec(compile(f"\n\ndef made_{number}():\n    hold()\n\nmade_{number}()", f"made {number}", "exec"), space)


def in_thread():
    for _ in range(50):
        hold_locked()
        time.sleep(0.0001)


lock = threading.Lock()


def hold_locked():
    with lock:
        hold()


def main():
    hold()
    one = Méthode()
    sorted([one, Méthode()])
    one.größe
    Méthode.in_static()
    list(generator())
    next(generator())
    recursive(5)
    through_c(5)
    catches()
    leaves(Méthode())
    (lambda: hold())()
    if "small" not in sys.argv:  # asyncio has more stacks than a profile has room for, if each object has one
        import asyncio

        asyncio.run(coroutine())
    for number in range(30):
        made(number)
    threads = [threading.Thread(target=in_thread) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recursive(300)
    one = None


main()
json.dump(expected[:next(counter)], open(sys.argv[1], "w"))
