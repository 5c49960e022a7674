# SPDX-License-Identifier: MIT
"""Builds and forgets trees: many small objects that die in the order of reference counts."""

import sys


class Node:
    __slots__ = ("left", "right", "value")

    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right


def build(depth):
    return Node(depth) if depth == 0 else Node(depth, build(depth - 1), build(depth - 1))


def total(node):
    return node.value + (total(node.left) + total(node.right) if node.left else 0)


def main(depth):
    kept = build(depth)
    sums = [total(build(small)) for small in range(4, depth) for _ in range(1 << (depth - small) // 2)]
    print(len(sums), sum(sums), total(kept))


main(int(sys.argv[1]))
