# SPDX-License-Identifier: MIT
"""What a running process shows of its heap: the shared page, and the commands that read it."""
