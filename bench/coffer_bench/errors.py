# SPDX-License-Identifier: MIT
"""Errors that are raised on purpose."""


class BenchError(Exception):
    """Something that makes the figures worthless: the message says what."""


class Unavailable(BenchError):
    """A workload that this machine cannot run; the message says what is missing."""
