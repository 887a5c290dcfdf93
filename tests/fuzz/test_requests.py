"""Requests cut anywhere: however bytes arrive, the same commands and the same error come out."""

from collections.abc import Iterable, Sequence
from random import Random

from fuzz.engine import Fuzzer, mutate

from rillet.protocol import limits
from rillet.protocol.requests import RequestParser

fuzzer = Fuzzer("requests")

WORDS = (
    *b"PING SET key $ * ~ | > POST Host: hOsT: = + ( #t >12345 *12345 xxxxxxxxxxxxxxxxxxxx".split(),
    *(b"", b"\r\n", b"*1\r\n$4\r\nPING\r\n", b"value with blanks", b"~1\r\n", b"|1\r\n", b"\0", b"\xff\xfe"),
)
LONG_WORDS = (b"x" * 1023, b"x" * 1024, b"x" * 1025, b"y" * 4096)
NUMBERS = (
    *b"0 1 2 3 10 11 -1 -0 01 +1 x 1x 2147483647 2147483648 16384 16385 536870912 536870913".split(),
    *b"9223372036854775807 9223372036854775808 -9223372036854775808 100000000000000000000".split(),
    *(b"", b" 1", b"1 "),
)
ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\rx", b"", b"\r\r\n", b"\0\r\n")
LINES = (
    *(b"PING", b'ECHO "a b"', b"ECHO 'a\\' b'", b'ECHO "a"b', b"ECHO 'a", b'SET "\\x00\\n" ""', b"  \t "),
    *(
        b"\v\fA\vB", b"POST / HTTP/1.1", b"Host: a", b"GET / HTTP/1.1", b"$4", b"+OK", b"a " * 12, b"ECHO a\0b",
    ),
)  # fmt: skip


class StrictParser(RequestParser):
    """The strict parser alone, which is the specification."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[list[bytes]]:
        return self._parse(data)


def parse(
    pieces: Iterable[bytes], kind: type[RequestParser], **options: int
) -> tuple[list[list[bytes]], bytes | None]:
    """Read pieces as a connection does."""
    parser = kind(**options)
    commands = []
    fed = 0
    for piece in pieces:
        fed += len(piece)
        batch = parser.feed(piece)
        while batch:
            assert parser.authenticated or len(batch) == 1
            commands += batch
            batch = [] if parser.authenticated else parser.feed(b"")
        assert 0 <= parser.buffered <= fed
    assert all(commands), "an empty command"
    return commands, parser.error


def cut(chance: Random, data: bytes) -> list[bytes]:
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(1, 8)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


# Beside the defaults: before AUTH, and with a limit that arguments of the corpus exceed.
OPTIONS: Sequence[dict[str, int]] = ({}, {"authenticated": False}, {"max_bulk_length": 1024})


def check(data: bytes) -> None:
    chance = Random(data)
    for options in OPTIONS:
        expected = parse([data], StrictParser, **options)
        assert parse([data], RequestParser, **options) == expected
        assert parse(cut(chance, data), RequestParser, **options) == expected
        if len(data) < 1500:
            assert parse((data[at : at + 1] for at in range(len(data))), RequestParser, **options) == expected
    # A small buffer may end a connection earlier or later as its bytes come; it never holds more than it may.
    held = RequestParser(max_query_buffer=500)
    for piece in cut(chance, data):
        held.feed(piece)
        assert held.error is not None or held.buffered <= 500 + len(piece) + limits.MAX_LINE


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Write some requests, mostly canonical, and damage the text now and then."""
    parts = []
    for _ in range(chance.choice((1, 1, 2, 3, 5, 40))):
        kind = chance.random()
        if kind < 0.5:
            words = [
                chance.choice(WORDS if chance.random() < 0.98 else LONG_WORDS)
                for _ in range(chance.choice((1, 1, 2, 3, 4, 12, 40)))
            ]
            parts.append(
                b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
            )
        elif kind < 0.7:
            parts.append(chance.choice(LINES) + chance.choice(ENDS))
        elif kind < 0.85:
            parts.append(
                chance.choice((b"*", b"*", b"$", b">", b"~", b"|", b"%"))
                + chance.choice(NUMBERS)
                + chance.choice(ENDS)
            )
        elif kind < 0.95:
            size, word = chance.choice(NUMBERS), chance.choice(WORDS)
            parts.append(
                b"*1" + chance.choice(ENDS) + b"$" + size + chance.choice(ENDS) + word + chance.choice(ENDS)
            )
        else:
            parts.append(chance.choice(corpus))
    data = b"".join(parts)
    return mutate(chance, data, corpus) if chance.random() < 0.4 else data


@fuzzer.seeds
def test_a_known_request_is_read_in_one_way_however_it_is_cut(seed):
    fuzzer.check_once(check, seed)


def test_generated_requests_are_read_in_one_way_however_they_are_cut():
    fuzzer.run(check, generate)
