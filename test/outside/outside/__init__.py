# SPDX-License-Identifier: MIT
"""The malloc tests that other projects' packages bring, run over any allocator that can be preloaded."""
