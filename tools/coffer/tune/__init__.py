# SPDX-License-Identifier: MIT
"""coffer tune: which options of Coffer suit a recorded program."""
