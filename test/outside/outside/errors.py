# SPDX-License-Identifier: MIT
"""What the page says and the run goes on without."""


class Missing(Exception):
    """A package, or an allocator, that cannot be had here; the text says why."""
