# SPDX-License-Identifier: MIT
"""The coffer command and what its sub-commands are made of."""
