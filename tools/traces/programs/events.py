# SPDX-License-Identifier: MIT
"""A simulation of customers in shops: objects that live for a while, a queue of events, generators and closures."""

import heapq
import itertools
import random
import sys


class Customer:
    def __init__(self, number, now):
        self.number, self.since, self.basket = number, now, {}

    def shop(self, source):
        for _ in range(source.randint(1, 12)):
            article = f"article {source.randint(1, 300)}"
            self.basket[article] = self.basket.get(article, 0) + 1
            yield source.expovariate(1.0)


def main(customers):
    source = random.Random(11)
    numbers, sold, waited = itertools.count(), {}, []
    queue = [(source.uniform(0, customers / 20), next(numbers), None, None) for _ in range(customers)]
    heapq.heapify(queue)
    while queue:
        now, number, customer, steps = heapq.heappop(queue)
        if customer is None:
            customer = Customer(number, now)
            steps = customer.shop(source)
        pause = next(steps, None)
        if pause is not None:
            heapq.heappush(queue, (now + pause, next(numbers), customer, steps))
            continue
        waited.append(now - customer.since)
        for article, count in customer.basket.items():
            sold.setdefault(article, []).append((customer.number, count))
    print(len(waited), len(sold), round(sum(waited)), sum(count for rows in sold.values() for _, count in rows))


main(int(sys.argv[1]))
