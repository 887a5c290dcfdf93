"""A client that is killed at any moment: pushes numbers to lists of its own, and writes a ledger of what it sent and got.

    python proxied_client.py PORT LEDGER SEED

Each connection has a list. A reply that is not the next number, or not the word asked for, is a line "wrong" of the ledger.
"""

import os
import socket
import sys
import time
from random import Random


def main(port: int, ledger: str, seed: str) -> None:
    chance = Random(seed)
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(*words: object) -> None:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())

    generation = 0
    while True:
        generation += 1
        key = f"list:{os.getpid()}:{generation}"
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as one:
                push(one, key, chance, note)
        except OSError:
            time.sleep(0.001)  # nobody listens, or the connection was reset


def push(one: socket.socket, key: str, chance: Random, note) -> None:
    unread, number = b"", 0
    while True:
        count = chance.choice((1, 2, 5, 50))
        numbers = range(number + 1, number + count + 1)
        note("sent", key, numbers[-1])
        word = f"{key}-{numbers[-1]}"
        one.sendall(
            "".join(f"RPUSH {key} {each}\r\n" for each in numbers).encode() + f"ECHO {word}\r\n".encode()
        )
        for expected in [*(b":%d" % each for each in numbers), b"$%d" % len(word), word.encode()]:
            while b"\r\n" not in unread:
                data = one.recv(1 << 16)
                if not data:
                    return
                unread += data
            line, _, unread = unread.partition(b"\r\n")
            if line.startswith(b"-LOADING"):
                return
            if line != expected:
                note("wrong", key, line, "instead of", expected)
                return
            if line.startswith(b":"):
                number = int(line[1:])
        note("acked", key, number)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
