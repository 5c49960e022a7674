# SPDX-License-Identifier: MIT
"""A service that keeps every answer that it gave, and never looks at one again."""
import sys
import time


class Session:
    def __init__(self):
        self.history = []

    def answer(self, number):
        body = bytes([number % 256]) * 4000
        self.history.append(body)
        return len(body)


def handle_request(session, number):
    scratch = [bytes(3000) for _ in range(10)]
    return session.answer(number) + len(scratch)


def serve(requests):
    session = Session()
    total = 0
    for number in range(requests):
        total += handle_request(session, number)
        time.sleep(0.0005)
    return total


print(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 2000), "bytes")
