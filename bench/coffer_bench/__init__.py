# SPDX-License-Identifier: MIT
"""Measures Coffer beside other allocators: the command `coffer bench`, and what the scripts beside this package share.
docs/guide/bench.md says how it is used."""
