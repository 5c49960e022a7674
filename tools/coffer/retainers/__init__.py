# SPDX-License-Identifier: MIT
"""Who keeps memory alive: `coffer retainers`."""
