# SPDX-License-Identifier: MIT
"""coffer report: one page about a trace."""
