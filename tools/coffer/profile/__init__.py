# SPDX-License-Identifier: MIT
"""Heap profiles: taking them of a program, and adding the names of functions."""
