# SPDX-License-Identifier: MIT
"""One file a suite: SUITE is what there is to say about it."""
