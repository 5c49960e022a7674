# SPDX-License-Identifier: MIT
"""Counts words, sorts them, writes them as JSON and reads that again: strings of all lengths, large tables."""

import collections
import json
import random
import sys


def words(count):
    source = random.Random(7)
    stems = ["".join(source.choice("aeioustrnlmdpb") for _ in range(source.randint(2, 14))) for _ in range(4000)]
    return [source.choice(stems) + source.choice(["", "s", "ed", "ing"]) for _ in range(count)]


def main(count):
    text = " ".join(words(count))
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    counts = collections.Counter(word for line in lines for word in line.split())
    places = collections.defaultdict(list)
    for number, line in enumerate(lines):
        for word in line.split():
            places[word].append(number)
    written = json.dumps({word: {"count": counts[word], "places": found} for word, found in sorted(places.items())})
    read = json.loads(written)
    print(len(lines), len(counts), len(written), sum(one["count"] for one in read.values()))


main(int(sys.argv[1]))
