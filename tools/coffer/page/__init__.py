# SPDX-License-Identifier: MIT
"""What the pages of coffer heap and coffer report share: the design, and the picture of call stacks."""
