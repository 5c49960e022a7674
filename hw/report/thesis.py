# SPDX-License-Identifier: MIT
"""The figures of the thesis's tables, averaged over its eight programs; nanoseconds."""

from __future__ import annotations

# Least, mean, most of find, block, total.
ALLOCATION = {
    ("ohebs", "msa"): ((10, 22.2, 40), (220.6, 258.2, 4423.8), (245.6, 295.4, 4448.8)),  # A.1
    ("hbs", "msa"): ((60, 60.0, 65), (522.5, 1355.4, 14550), (637.5, 1470.4, 14751.9)),  # A.2
    ("ohebs", "rcgc"): ((10, 17.6, 40), (204.4, 348.8, 5636.3), (229.4, 381.4, 5661.3)),  # A.7
}
DEALLOCATION = {
    ("ohebs", "msa"): (280, 2212.1, 3120.6),  # A.5
    ("hbs", "msa"): (1390, 2072.8, 13061.9),  # A.6
    ("ohebs", "rcgc"): (279.4, 915.2, 5036.3),  # A.8
}
# Direct, pair, decompositional, by operations.
DISTRIBUTION = {"msa": (0.501, 0.000, 0.499), "rcgc": (0.776, 0.019, 0.205)}  # A.9
ARRIVAL = (12315, 15062)  # A.10: the least time between allocations, from program to program
MOST_BLOCK = {"ohebs": (2855, 8580), "hbs": (13975, 15575)}
# A.11: most, averaged. With Fast Return HBS's mean of the rows is 1046.4; what the table gives as average, 111.9, is
# that of the offsets.
FAST_RETURN = {"ohebs_fast": 25, "ohebs": 4448.8, "hbs_fast": 1046.4, "hbs": 14661.9}
