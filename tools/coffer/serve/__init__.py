# SPDX-License-Identifier: MIT
"""coffer serve: metrics and heap profiles of processes over HTTP."""
