# SPDX-License-Identifier: MIT
"""coffer leaks and coffer heap: who holds memory, from heap profiles."""
