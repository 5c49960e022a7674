# SPDX-License-Identifier: MIT
"""coffer record: the collector's arguments. The recorder and the collector are C++, in tools/record."""
