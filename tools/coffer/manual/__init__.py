# SPDX-License-Identifier: MIT
"""Manual pages and shell completion, written from the declaration of the command (coffer/cli.py) when it is built."""
