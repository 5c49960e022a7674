# SPDX-License-Identifier: MIT
"""coffer index: how the blocks of an allocator spread over the indices of a cache (paper 3)."""
