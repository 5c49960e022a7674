# SPDX-License-Identifier: MIT
"""Reads by a C library, and forgets every fourth reading. sensor.py LIBRARY."""
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.allocate_reading.restype = ctypes.c_void_p
library.free_reading.argtypes = [ctypes.c_void_p]
history = []
for number in range(4000):
    reading = library.allocate_reading(6000)
    history.append(str(number) * 10)
    if number % 4:
        library.free_reading(reading)
print(len(history), "read")
