# SPDX-License-Identifier: MIT
"""`make soak`: real programs under Coffer for hours, with their processes killed and their limits changed under way.
docs/design/soak.md says what is measured and judged; __main__.py is the command."""
