# SPDX-License-Identifier: MIT
"""coffer replay: a trace under any allocator."""
