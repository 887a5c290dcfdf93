import ast
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol import limits
from rillet.protocol.requests import RequestParser

PING = b"*1\r\n$4\r\nPING\r\n"
MULTIBULK = b"invalid multibulk length"
BULK = b"invalid bulk length"
QUOTES = b"unbalanced quotes in request"
SILENT = b""
LINE = limits.MAX_LINE

# What is sent, the commands it makes, and the error (its text after "Protocol error: ", SILENT or None).
# All of these were compared with redis-server 7.0.15.
TABLE = [
    (b"", [], None),
    (PING, [[b"PING"]], None),
    (PING * 3, [[b"PING"]] * 3, None),
    (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", [[b"ECHO", b""]], None),
    (b"*2\r\n$4\r\nECHO\r\n$6\r\n\r\n$1\r\n\r\n", [[b"ECHO", b"\r\n$1\r\n"]], None),
    (b"*12\r\n" + b"$1\r\na\r\n" * 12 + PING, [[b"a"] * 12, [b"PING"]], None),
    (b"*1\r\n$0\r\n\r\n", [[b""]], None),
    (b"*0\r\n*-5\r\n*-9223372036854775808\r\n" + PING, [[b"PING"]], None),
    (PING + b"*0\r\n" + PING, [[b"PING"]] * 2, None),
    (b"*0\r\n" * 3, [], None),
    (b"*1\r\n$4\r\nPINGxx" + PING, [[b"PING"]] * 2, None),
    (b"*1\rx$4\ryPINGzz", [[b"PING"]], None),
    (b"*2147483647\r\n", [], None),
    (b"*2147483647\r\n$1\r\na\r\n", [], None),
    (b"*2147483648\r\n", [], MULTIBULK),
    (b"*x\r\n", [], MULTIBULK),
    (b"*\r\n", [], MULTIBULK),
    (b"*-0\r\n", [], MULTIBULK),
    (b"*01\r\n", [], MULTIBULK),
    (b"*+1\r\n", [], MULTIBULK),
    (b"* 1\r\n", [], MULTIBULK),
    (b"*9223372036854775808\r\n", [], MULTIBULK),
    (b"*-9223372036854775809\r\n", [], MULTIBULK),
    (b"*100000000000000000000000\r\n", [], MULTIBULK),
    (b"*x\r", [], None),
    (b"*1\r\nX\r\n", [], b"expected '$', got 'X'"),
    (b"*1\r\n:1\r\n", [], b"expected '$', got ':'"),
    (b"*1\r\n+PING\r\n", [], b"expected '$', got '+'"),
    (b"*2\r\n$1\r\n$\r\n+a\r\n", [], b"expected '$', got '+'"),
    (b"*2\r\n$1\r\naXX+b\r\n", [], b"expected '$', got '+'"),
    (b"*1\r\n=7\r\ntxt:abc\r\n", [], b"expected '$', got '='"),
    (b"*1\r\n(12345\r\n", [], b"expected '$', got '('"),
    (b"*1\r\n*1\r\n$1\r\na\r\n", [], b"expected '$', got '*'"),
    (b"*1\r\n~1\r\n$1\r\na\r\n", [], b"expected '$', got '~'"),
    (b"*1\r\n|1\r\n+a\r\n+b\r\n$1\r\na\r\n", [], b"expected '$', got '|'"),
    (b"*1\r\n-\xff\r\n", [], b"expected '$', got '-'"),
    (b"*1\r\n\r\n", [], b"expected '$', got ' '"),
    (b"*1\r\n\n\r\n", [], b"expected '$', got ' '"),
    (b"*1\r\n\xff\r\n", [], b"expected '$', got '\xff'"),
    (b"*1\r\n'\r\n", [], b"expected '$', got '''"),
    (b"*1\r\nX\r", [], None),
    (b"*1\r\n$-1\r\n", [], BULK),
    (b"*1\r\n$\r\n", [], BULK),
    (b"*1\r\n$x\r\n", [], BULK),
    (b"*1\r\n$04\r\nPING\r\n", [], BULK),
    (b"*1\r\n$536870912\r\n", [], None),
    (b"*1\r\n$536870913\r\n", [], BULK),
    (b"*1\r\n$9223372036854775808\r\n", [], BULK),
    (b"*3\r\n$1\r\na\r\n$x\r\n", [], BULK),
    (PING + b"*x\r\n" + PING, [[b"PING"]], MULTIBULK),
    (PING * 2 + b"*1\r\n$x\r\n" + PING, [[b"PING"]] * 2, BULK),
    (b"PING\r\n", [[b"PING"]], None),
    (b"PING\n", [[b"PING"]], None),
    (b"\r\n\n  \r\nPING\n", [[b"PING"]], None),
    (b"$4\r\nPING\r\n", [[b"$4"], [b"PING"]], None),
    (b"+OK\r\n", [[b"+OK"]], None),
    (b'"ECHO" "a b"\r\n', [[b"ECHO", b"a b"]], None),
    (b'""\r\n', [[b""]], None),
    (b"ECHO a\r\r\n", [[b"ECHO", b"a"]], None),
    (PING + b"ECHO 'a b'\r\n" + PING, [[b"PING"], [b"ECHO", b"a b"], [b"PING"]], None),
    (b"ECHO 'a\r\n", [], QUOTES),
    (b'PING\r\nECHO "a"b\r\nPING\r\n', [[b"PING"]], QUOTES),
    (b"POST / HTTP/1.1\r\nHost: a\r\n", [], SILENT),
    (b"GET / HTTP/1.1\r\nhOST: a\r\n", [[b"GET", b"/", b"HTTP/1.1"]], SILENT),
    (b"*1\r\n$4\r\nPoSt\r\n", [], SILENT),
    (PING + b"*1\r\n$5\r\nHost:\r\n" + PING, [[b"PING"]], SILENT),
    (b"POSTS\r\nECHO POST\r\n", [[b"POSTS"], [b"ECHO", b"POST"]], None),
    # Redis looks for line ends up to a NUL.
    (b"ECHO a\0b\r\nPING\r\n", [], None),
    (b"*\x001\r\n" + PING, [], None),
    (b"*1\r\n$\x00\r\n" + PING, [], b"invalid bulk length"),
    (b"*1\r\n$4\x00\r\nPING\r\n", [], b"invalid bulk length"),
    (b"*1\r\n4\x00\r\nPING\r\n", [], b"expected '$', got '4'"),
]

LONG = [
    (b"A" * LINE, [], None),
    (b"A" * (LINE + 1), [], b"too big inline request"),
    (b"A" * LINE + b"\n", [[b"A" * LINE]], None),
    (b"A" * (LINE + 1) + b"\n", [], b"too big inline request"),
    (b"A\0\n" + b"A" * (LINE - 3), [], None),
    (b"A\0\n" + b"A" * (LINE - 2), [], b"too big inline request"),
    (b"*" + b"1" * (LINE - 1), [], None),
    (b"*" + b"1" * LINE, [], b"too big mbulk count string"),
    (b"*" + b"1" * (LINE - 1) + b"\r\n", [], MULTIBULK),
    (b"*\0\r\n" + b"1" * LINE, [], b"too big mbulk count string"),
    (PING + b"*1\r\n" + b"$" * LINE, [[b"PING"]], None),
    (PING + b"*1\r\n" + b"$" * (LINE + 1), [[b"PING"]], b"too big bulk count string"),
    (b"*1\r\n" + b"A" * (LINE + 1), [], b"too big bulk count string"),
    (b"*1\r\n$100000\r\n" + b"v" * 100_000 + b"\r\n" + PING, [[b"v" * 100_000], [b"PING"]], None),
]

UNAUTHENTICATED = [
    (PING * 3, [[b"PING"]] * 3, None),
    (b"*10\r\n", [], None),
    (b"*11\r\n", [], b"unauthenticated multibulk length"),
    (b"*2147483648\r\n", [], MULTIBULK),
    (b"*1\r\n$16384\r\n", [], None),
    (b"*1\r\n$16385\r\n", [], b"unauthenticated bulk length"),
    (b"*1\r\n$536870913\r\n", [], BULK),
    (PING + b"*11\r\n" + PING, [[b"PING"]], b"unauthenticated multibulk length"),
    (b" ".join([b"a"] * 12) + b"\r\n", [[b"a"] * 12], None),
]


class SlowParser(RequestParser):
    """The strict parser alone."""

    __slots__ = ()

    def feed(self, data):
        return self._parse(data)


class QuickParser(RequestParser):
    """Fails where the strict parser is needed."""

    __slots__ = ()

    def _parse(self, data):
        raise AssertionError(data)


def error_reply(text):
    return b"-ERR Protocol error: " + text + b"\r\n" if text else text


def run(pieces, kind=RequestParser, **options):
    parser = kind(**options)
    commands = []
    fed = 0
    for piece in pieces:
        fed += len(piece)
        commands += parser.feed(piece)
        while parser.more:
            commands += parser.feed(b"")
        assert 0 <= parser.buffered <= fed
    return commands, parser.error


def encode(*arguments):
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%b\r\n" % (len(it), it) for it in arguments)


def split(data, cuts):
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("kind", [RequestParser, SlowParser])
@pytest.mark.parametrize(("data", "commands", "error"), TABLE)
def test_requests_are_read_as_redis_reads_them_however_they_are_cut(kind, data, commands, error):
    expected = (commands, error_reply(error))
    assert run([data], kind) == expected
    assert run([data[at : at + 1] for at in range(len(data))], kind) == expected
    for at in range(len(data)):
        assert run([data[:at], data[at:]], kind) == expected


@pytest.mark.parametrize("kind", [RequestParser, SlowParser])
@pytest.mark.parametrize(("data", "commands", "error"), LONG)
def test_long_lines_end_at_the_same_byte_however_they_are_cut(kind, data, commands, error):
    expected = (commands, error_reply(error))
    for size in (len(data), 16_384, 1000, 7):
        assert run([data[at : at + size] for at in range(0, len(data), size)], kind) == expected


@pytest.mark.parametrize("kind", [RequestParser, SlowParser])
@pytest.mark.parametrize(("data", "commands", "error"), UNAUTHENTICATED)
def test_tighter_limits_hold_before_authentication(kind, data, commands, error):
    expected = (commands, error_reply(error))
    for at in range(len(data) + 1):
        assert run([data[:at], data[at:]], kind, authenticated=False) == expected


def test_an_auth_lifts_the_limits_for_what_was_pipelined_behind_it():
    parser = RequestParser(authenticated=False)
    wide = [b"a"] * 11
    assert parser.feed(encode(b"AUTH", b"pw") + encode(*wide) * 2 + PING) == [[b"AUTH", b"pw"]]
    parser.authenticated = True
    assert parser.feed(b"") == [wide, wide, [b"PING"]]
    assert parser.error is None
    assert parser.buffered == 0


def test_losing_authentication_brings_the_limits_back():
    parser = RequestParser()
    assert parser.feed(encode(*[b"a"] * 11)) == [[b"a"] * 11]
    parser.authenticated = False
    assert parser.feed(encode(*[b"a"] * 11)) == []
    assert parser.error == error_reply(b"unauthenticated multibulk length")


@pytest.mark.parametrize("authenticated", [True, False])
def test_nothing_is_parsed_after_an_error(authenticated):
    parser = RequestParser(authenticated=authenticated)
    parser.feed(b"*x\r\n")
    parser.authenticated = True
    for data in (PING, b"PING\r\n", b"", b"*x\r\n"):
        assert parser.feed(data) == []
    assert parser.error == error_reply(MULTIBULK)
    assert parser.buffered == 0


def test_buffered_counts_what_an_incomplete_request_holds():
    parser = RequestParser()
    parser.feed(PING + b"*2\r\n$4\r\nECHO\r\n$9\r\nabc")
    assert parser.buffered == len(b"ECHO") + len(b"abc")
    assert parser.feed(b"defghi\r\n") == [[b"ECHO", b"abcdefghi"]]
    assert parser.buffered == 0


@pytest.mark.parametrize("size", [1 << 30, 16_384, 1000])
@pytest.mark.parametrize(("length", "dropped"), [(99_998, False), (99_999, True), (150_000, True)])
def test_an_argument_beyond_the_query_buffer_limit_closes_silently(length, dropped, size):
    data = encode(b"ECHO", b"x" * length) + PING
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    expected = ([], SILENT) if dropped else ([[b"ECHO", b"x" * length], [b"PING"]], None)
    assert run(pieces, max_query_buffer=100_000) == expected


def test_arguments_already_taken_out_of_the_query_buffer_do_not_count():
    data = encode(*[b"x" * 90_000] * 3)
    assert run(split(data, [100_000, 200_000]), max_query_buffer=100_000) == ([[b"x" * 90_000] * 3], None)


def test_a_client_yet_to_authenticate_may_hold_less():
    lowered = limits.UNAUTHENTICATED_MAX_QUERY_BUFFER
    assert RequestParser(authenticated=False)._query_limit() == lowered
    assert RequestParser(authenticated=False, max_query_buffer=10)._query_limit() == 10
    assert RequestParser()._query_limit() == limits.MAX_QUERY_BUFFER


@pytest.mark.parametrize("pipelined", [1, 3])
def test_a_lowered_bulk_limit_holds_for_short_commands_too(pipelined):
    parser = RequestParser()
    parser.max_bulk_length = 3
    assert parser.feed(encode(b"GET", b"abc") * pipelined) == [[b"GET", b"abc"]] * pipelined
    assert parser.feed(PING * pipelined) == []
    assert parser.error == error_reply(BULK)


def test_a_raised_query_limit_applies_to_a_request_under_way():
    parser = RequestParser(max_query_buffer=1000)
    parser.feed(b"*1\r\n$2000\r\n" + b"x" * 900)
    parser.max_query_buffer = 5000
    assert parser.feed(b"x" * 1100 + b"\r\n") == [[b"x" * 2000]]


@pytest.mark.parametrize(
    "data",
    [
        b"*2147483647\r\n$1\r\na\r\n",
        PING + b"*2000000000\r\n$1\r\na\r\n",
        b"*1\r\n*900000000\r\n",
        b"*1\r\n~900000000\r\n",
        b"*1\r\n>900000000\r\n",
        b"*1\r\n|900000000\r\n",
        b"*1\r\n$1\r\naXX*900000000\r\n",
        b"*1\r\n$500000000\r\nabc",
        PING + b"*1\r\n$500000000\r\nabc",
        encode(b"SET", b"k", b"v" * 5000) + b"*2000000000\r\n$1\r\na\r\n",
        encode(b"SET", b"k", b"* > " * 2000) + b"*2000000000\r\n$1\r\na\r\n",
        encode(b"SET", b"k", b"v" * 5000) + b"*1\r\n>900000000\r\n",
        encode(b"SET", b"k", b"> * " * 2000) + b"*1\r\n>900000000\r\n",
    ],
)
def test_a_claimed_size_allocates_nothing(data):
    parser = RequestParser()
    tracemalloc.start()
    try:
        parser.feed(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_big_argument_in_pieces_comes_back_whole_and_the_next_command_too():
    value = bytes(range(256)) * 40_000
    data = encode(b"SET", b"k", value) + PING * 2
    commands, error = run([data[at : at + 65_536] for at in range(0, len(data), 65_536)])
    assert commands == [[b"SET", b"k", value], [b"PING"], [b"PING"]]
    assert error is None


@pytest.mark.parametrize(
    "commands",
    [
        [[b"PING"]],
        [[b"PING"]] * 50,
        [[b"XADD", b"s", b"MAXLEN", b"~", b"9", b"*", b"f", b"v\r\n$1\r\n"]],
        [[b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"100000", b"STREAMS", b"s", b"t", b">", b"$"]] * 2,
        [[b"XRANGE", b"s", b"-", b"+"], [b"SET", b"k", b"v" * 60_000], [b"GET", b""]],
    ],
)
def test_canonical_commands_never_need_the_strict_parser(commands):
    assert run([b"".join(encode(*command) for command in commands)] * 2, QuickParser) == (commands * 2, None)


def test_the_quick_way_takes_over_again_after_a_request_in_pieces():
    parser = QuickParser()
    assert RequestParser._parse(parser, PING[:6]) == []
    assert parser.feed(PING[6:] + PING * 3) == [[b"PING"]] * 4
    assert parser.feed(PING) == [[b"PING"]]


def test_commands_belong_to_the_caller():
    parser = RequestParser()
    first = parser.feed(PING)
    first[0].append(b"mine")
    first.append([b"mine"])
    assert parser.feed(PING) == [[b"PING"]]


@pytest.mark.parametrize(
    "line", [b"XREADGROUP STREAMS s >", b"XREAD STREAMS s $", b"XPENDING s g - + 10", b"XADD stream (1 a=b c"]
)
def test_a_request_that_comes_again_is_recognised_and_still_belongs_to_the_caller(monkeypatch, line):
    words = line.split()
    data = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    parser = RequestParser()
    assert parser.feed(data) == [words]
    monkeypatch.setattr(RequestParser, "_take_whole_batch", None)
    for _ in range(2):
        again = parser.feed(data)
        assert again == [words]
        again[0].append(b"mine")
    assert parser.feed(data[:20]) == []
    assert parser.feed(data[20:]) == [words]
    parser.max_bulk_length = 4
    assert parser.feed(data) == []
    assert parser.error


arguments = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"PING", b"XADD", b"*", b">", b"$", b"+", b"~", b"=", b"\r\n$1\r\n", b"\r\n", b"$1\r\na", b"*12345"]
    ),
    st.integers(0, 3000).map(lambda length: b"v" * length),
    st.sampled_from([b"*", b">", b"*12345", b">12345", b"* > "]).map(
        lambda mark: mark + b"v" * 4200 + mark * 3
    ),
)
commands_sent = st.lists(
    st.lists(arguments, min_size=1, max_size=14).filter(lambda it: it[0].lower() not in {b"post", b"host:"}),
    max_size=6,
)
cuts = st.lists(st.integers(0, 1 << 20), max_size=8)


class WordByWord(RequestParser):
    """Never takes many words at a time."""

    __slots__ = ()

    def _may_take_words(self):
        return False


long_words = st.sampled_from([b"", b"a", b"word", b"$4\r\nword", b"x\r\n", b"\r", b"v" * 1024, b"v" * 1025])


@given(
    st.lists(st.lists(long_words, min_size=30, max_size=300), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=2),
    cuts,
    st.sampled_from([10, 1026, 2048, 1 << 20]),
)
def test_long_requests_are_read_alike_with_many_words_at_a_time_and_one_by_one(commands, damage, cuts, limit):
    data = bytearray(b"".join(encode(b"DEL", *command) for command in commands))
    for place, byte in damage:
        data[place % len(data)] = byte
    pieces = split(bytes(data), cuts)
    found = []
    for kind in (RequestParser, WordByWord):
        parser = kind(max_bulk_length=limit)
        # Not at once, which other ways would read.
        commands_read = [RequestParser._parse(parser, piece) for piece in pieces]
        found.append((commands_read, parser.error, parser.buffered))
    assert found[0] == found[1]


def test_a_long_request_in_pieces_is_taken_by_many_words_at_a_time(monkeypatch):
    words = [b"key:%d" % number for number in range(20_000)]
    data = encode(b"DEL", *words)
    read = []
    original = RequestParser._read_length
    monkeypatch.setattr(
        RequestParser, "_read_length", lambda parser: bool(read.append(1)) or original(parser)
    )
    parser = RequestParser()
    found = [
        command for at in range(0, len(data), 100_000) for command in parser.feed(data[at : at + 100_000])
    ]
    assert found == [[b"DEL", *words]]
    assert len(read) < 200


@given(commands_sent, cuts)
def test_encoded_commands_come_back_under_any_split(commands, cuts):
    data = b"".join(encode(*command) for command in commands)
    assert run([data]) == (commands, None)
    assert run(split(data, cuts)) == (commands, None)
    assert run(split(data, cuts), SlowParser) == (commands, None)
    narrow = [command for command in commands if len(command) <= 10]
    data = b"".join(encode(*command) for command in narrow)
    assert run(split(data, cuts), authenticated=False) == (narrow, None)


@given(
    st.lists(
        commands_sent
        | st.sampled_from(
            [[[b"XREADGROUP", b">"]], [[b"XREAD", b"s", b"0"]], [[b"XRANGE", b"s", b"-", b"+"]]]
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(0, 2), max_size=12),
)
def test_requests_that_come_again_are_read_as_new_ones(requests, order):
    quick, slow = RequestParser(), SlowParser()
    for number in order:
        commands = requests[number % len(requests)]
        data = b"".join(encode(*command) for command in commands)
        found = quick.feed(data)
        while quick.more:
            found += quick.feed(b"")
        again = slow.feed(data)
        while slow.more:
            again += slow.feed(b"")
        assert found == again == commands
        for command in found:
            command.append(b"the caller's")


def test_no_group_of_a_regular_expression_is_possessive():
    """In Python 3.11.2, which Debian 12 has, it may end at a wrong place."""
    root = Path(__file__).parents[2]
    rooms = ("commands", "console", "pipeline", "protocol", "server", "storage", "testing")
    found = [
        f"{path.relative_to(root)}: {item.value!r}"
        for room in rooms
        for path in (root / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")
        for item in ast.walk(node)
        if isinstance(item, ast.Constant) and isinstance(item.value, str | bytes)
        if re.search(r"(?<!\\)\)([*+?]|\{[\d,]*\})\+|\(\?>", str(item.value))
    ]
    assert found == []
