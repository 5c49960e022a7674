# SPDX-License-Identifier: MIT
"""Reads by a C library, and forgets every fourth reading. sensor.py LIBRARY."""
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.allocate_reading.restype = ctypes.c_void_p
library.free_reading.argtypes = [ctypes.c_void_p]


def read_all(count):
    history = []
    for number in range(count):
        reading = library.allocate_reading(6000)
        history.append(str(number) * 10)
        if number % 4:
            library.free_reading(reading)
    return history


print(len(read_all(4000)), "read")
