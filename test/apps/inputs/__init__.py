# SPDX-License-Identifier: MIT
"""What the programs are given: generators, and scripts of their own languages."""
