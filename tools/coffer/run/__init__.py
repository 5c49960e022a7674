# SPDX-License-Identifier: MIT
"""coffer run: a program under Coffer."""
