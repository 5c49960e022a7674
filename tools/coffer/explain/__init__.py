# SPDX-License-Identifier: MIT
"""coffer explain: why more is resident than live."""
