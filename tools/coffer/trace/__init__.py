# SPDX-License-Identifier: MIT
"""Traces: the reader."""
