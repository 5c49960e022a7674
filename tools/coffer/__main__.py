# SPDX-License-Identifier: MIT
from coffer.start import main

main()
