"""Every state of a connection, in any order and cut anywhere: the same bytes as without a proxy, and the same state.

A story is told twice to a real server: once directly and command by command, then through a proxy, in pipelines that are
cut at random bytes. The client must get the same bytes after each step, a recording must give each command the reply that
it got on the direct connection, and the proxy must know what CLIENT LIST knows of the client.
"""

import contextlib
import os
import re
import select
import socket
from random import Random

import pytest
from support.until import until
from support.wire import Wire, encode_command, parse

pytestmark = pytest.mark.usefixtures("watched")

STORIES = int(os.environ.get("RILLET_STORIES", "60"))  # of each server and way to look; 2,000 take 15 seconds
LOOKS = ("nothing", "everything", "everything, in vain")

SENT = """
HELLO | HELLO 2 | HELLO 3 | HELLO 3 SETNAME bob | HELLO 3 AUTH bob wrong | HELLO 2 AUTH bob pw | HELLO 3 AUTH bob pw | HELLO 4
HELLO 3 NOPE | AUTH wrong | AUTH bob pw | AUTH bob wrong | AUTH default nopass | AUTH | RESET | RESET now | QUIT | QUIT now
CLIENT REPLY ON | CLIENT REPLY OFF | CLIENT REPLY SKIP | CLIENT REPLY NOPE | CLIENT REPLY | client reply off | CLIENT REPLY ON x
MULTI | MULTI x | EXEC | EXEC x | DISCARD | WATCH k | UNWATCH | SET k v | GET k | GET | NOPE | INCR text | INCR n | LRANGE list 0 -1 | HGETALL h
SUBSCRIBE a | SUBSCRIBE a b a | SUBSCRIBE | PSUBSCRIBE p* q | SSUBSCRIBE s | SSUBSCRIBE s t
UNSUBSCRIBE | UNSUBSCRIBE a | UNSUBSCRIBE x y | PUNSUBSCRIBE | PUNSUBSCRIBE q | SUNSUBSCRIBE | SUNSUBSCRIBE s x
PUBLISH a me | PING | PING x | PING x y | ECHO message | MONITOR | MONITOR x
CLIENT TRACKING ON | CLIENT TRACKING OFF | CLIENT CACHING YES | CLIENT KILL ID {id} | CLIENT KILL ID {id} SKIPME no | CLIENT UNBLOCK {id}
CLIENT SETNAME ann | CLIENT SETNAME | CLIENT SETINFO LIB-NAME lib | CLIENT NO-TOUCH ON | SELECT 3 | SELECT 99 | SELECT
BLPOP l 0 | BLPOP list 0 | BLPOP l x | XREAD BLOCK 0 STREAMS st $ | XREAD STREAMS st 0 | WAIT 0 0 | BLMOVE l list LEFT LEFT 0 | XREADGROUP GROUP g c BLOCK 0 STREAMS st >
DEBUG PROTOCOL attrib | DEBUG PROTOCOL push | DEBUG PROTOCOL map | DEBUG PROTOCOL set | DEBUG PROTOCOL null | DEBUG PROTOCOL true
DEBUG PROTOCOL verbatim | DEBUG PROTOCOL double | DEBUG PROTOCOL bignum | DEBUG PROTOCOL array
EVAL return{1,{2,{}},'x',redis.error_reply('X_y')} 0 | EVAL redis.setresp(3);return(redis.call('hgetall','h')) 0 | EVAL return(redis.call('client','reply','off')) 0
PSYNC | SYNC x | REPLCONF nope 1 | ASKING | READONLY | FAILOVER ABORT | OBJECT HELP
"""
INLINE = (
    *(b"PING\r\n", b"PING\n", b"\r\n", b"*0\r\n", b"*-1\r\n", b"ECHO 'a b'\r\n", b"client reply skip\r\n"),
    *(b"SUBSCRIBE a b\r\n", b"*1\r\n$0\r\n\r\n", b"$3\r\nfoo\r\n", b"+PING\r\n", b"*1\r\n$4\r\nPINGxx"),
)
WRONG = (
    *(b"*x\r\n", b"*1\r\n$x\r\n", b"*1\r\n:1\r\n", b"ECHO 'a\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n"),
    *(b"*1\r\n$-1\r\n", b"*2147483648\r\n", b"*1\r\n$999999999999\r\n"),
)
OTHERS = """
PUBLISH a hello | PUBLISH p1 hello | SPUBLISH s hello | SET k w | SET n 1 | RPUSH l x | RPUSH l x y | XADD st * f v
CLIENT UNBLOCK {id} | CLIENT UNBLOCK {id} ERROR | CLIENT KILL ID {id} | ACL SETUSER bob resetchannels
"""


def _lines(text):
    return [tuple(each.split()) for line in text.strip().splitlines() for each in line.split(" | ")]


SENT, OTHERS = _lines(SENT), _lines(OTHERS)
COMMANDS = [*SENT, *INLINE, *WRONG]


class Told:
    """A story told on one connection."""

    def __init__(self, real, port):
        self._control = Wire(real.port)
        for line in (
            "FLUSHALL", "SCRIPT FLUSH", "RPUSH list message a b", "SET text t", "HSET h f v g w",
            "XADD st 1-1 f v", "XGROUP CREATE st g 0", "ACL SETUSER bob on >pw ~* &a +@all allchannels",
        ):  # fmt: skip
            self._control.call(*line.split())
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n")
        self.id = int(self._read_line())
        self.got = b""
        self.is_over = False

    def _read_line(self):
        found = b""
        while not found.endswith(b"\r\n"):
            found += self._socket.recv(1)
        return found[1:-2]

    def bytes_of(self, command):
        if isinstance(command, bytes):
            return command
        return encode_command(*(word.format(id=self.id) if word == "{id}" else word for word in command))

    def send(self, data, cuts=()):
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            with contextlib.suppress(ConnectionError):  # the server has closed it
                self._socket.sendall(data[begin:end])

    def other(self, command):
        return self._control.call(*(str(self.id) if word == "{id}" else word for word in command))

    def settle(self):
        """Let the server run what has been sent, and read what it answers to it."""
        for _ in range(2):  # the answers to what came in the turn of the first are written before the second
            self._control.call("ECHO", "settled")
        self.read()

    def read(self):
        while not self.is_over and select.select([self._socket], [], [], 0)[0]:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            self.got += data
            self.is_over = not data

    def taken(self):
        """What came since the last time, without what differs between two connections."""
        got, self.got = _masked(self.got), b""
        return got

    def row(self):
        """What the server says of the client."""
        row = self._control.call("CLIENT", "LIST", "ID", str(self.id)).value.decode()
        return dict(each.partition("=")[::2] for each in row.split())

    def close(self):
        self._socket.close()
        self._control.close()


def _masked(got):
    got = re.sub(rb"\+[0-9.]+ \[[^]]*\] \"ECHO\" \"settled\"\r\n", b"", got)
    got = re.sub(rb"\+[0-9.]+ \[(\d+) [^]]*\]", rb"+TIME [\1 ADDRESS]", got)
    got = re.sub(rb"\"(?i:client)\" \"(KILL\" \"ID|UNBLOCK)\" \"\d+\"", rb'"CLIENT" "\1" "ID"', got)
    got = re.sub(rb"\$2\r\nid\r\n:\d+\r\n", b"$2\r\nid\r\n:ID\r\n", got)
    return re.sub(rb"\$\d+\r\n\d{13}-\d\r\n", b"ENTRY", got)


def is_message(node):
    """Whether a value that came belongs to no request."""
    if node.kind == "+" and node.header.startswith(b"TIME ["):
        return True
    first = node.children[0].value if node.children else b""
    if node.kind == ">":
        return not first.endswith(b"subscribe")
    return (
        node.kind == "*" and first in {b"message", b"pmessage", b"smessage"} and len(node.children) in {3, 4}
    )


def values_of(data):
    """The values of bytes, each with the attribute before it."""
    at, attribute = 0, b""
    while at < len(data):
        node, end = parse(data.replace(b":ID\r\n", b":00\r\n").replace(b"ENTRY", b"+NTR\r"[:5]), at)
        if node.kind == "|":
            attribute = data[at:end]
        else:
            yield node, attribute + data[at:end]
            attribute = b""
        at = end


def directly(real, steps):
    """Tell a story command by command, until nothing waits any more.

    Return the steps with what came after each, what came after each command, None if one has waited, and the row at the end.
    """
    told = Told(real, real.port)
    try:
        parts, answers, row = [], [], {}
        rest = list(steps)
        while rest:
            kind, what = rest.pop(0)
            part = b""
            if kind == "other":
                told.other(what)
                told.settle()
                part = told.taken()
            else:
                for command in what:
                    if not told.is_over:
                        told.send(told.bytes_of(command))
                        told.settle()
                        part += (got := told.taken())
                        if answers is not None:
                            answers.append((command, got))
            parts.append((kind, what, part))
            row = None if told.is_over else told.row()
            if row and "b" in row["flags"]:
                answers = None
                rest = rest or [("other", ("CLIENT", "UNBLOCK", "{id}"))]
        return parts, answers, row
    finally:
        told.close()


def check_recorded(proxy, told, answers):
    """A recording has the reply of each command, and none where the server gave none."""
    entries = proxy._run(
        lambda listener: [
            (each.words[0].upper(), None if each.reply is None else _masked(each.reply))
            for recording in listener.recorder.recordings.values()
            for each in recording.entries
            if each.client_id == told.id
        ]
    )
    unseen = {"DEBUG", "PSYNC", "SYNC", "REPLCONF"}
    expected = [
        (
            command[0].upper(),
            b"".join(
                value for node, value in values_of(got) if command[0] == "LRANGE" or not is_message(node)
            )
            or None,
        )
        for command, got in answers
        if command[0] not in unseen
    ]
    found = [(name.decode(), reply) for name, reply in entries]
    assert found[: len(expected)] == expected
    assert not any(reply for _, reply in found[len(expected) :])  # behind the end of the connection


def compare(proxy, real, steps, chance, looks):
    parts, answers, row = directly(real, steps)
    replies = not any("REPLY" in str(each).upper() for _, what in steps for each in what)
    if steps[-1][1][0] in WRONG and answers is None:  # what is unread when the server closes is lost
        return
    if not replies and (
        row is None or "c" in row["flags"]
    ):  # whether QUIT and kills close at once depends on the batch
        return
    with contextlib.ExitStack() as stack:
        if looks != "nothing":
            stack.enter_context(proxy.recording())
        if looks == "everything, in vain":
            stack.enter_context(proxy.fault(key="no such key", close="midway"))
            stack.enter_context(proxy.fault(client="nobody", error="OOM"))
        told = Told(real, proxy.port)
        stack.callback(told.close)
        [link] = proxy._run(lambda listener: [each for each in listener._links if each.session.id == told.id])
        sent = len(told.bytes_of(("CLIENT", "ID")))
        for kind, what, part in parts:
            if kind == "other":
                told.other(what)
            else:
                data = b"".join(map(told.bytes_of, what))
                sent += len(data)
                cuts = sorted(
                    chance.randrange(len(data) + 1)
                    for _ in range(0 if what[0] in WRONG else chance.choice((0, 0, 1, 3)))
                )
                told.send(data, cuts)

            def is_there(part=part, sent=sent):
                told.settle()
                return told.is_over or (
                    len(_masked(told.got)) >= len(part)
                    and (len(link.passed) == sent or (link._is_held and link._unanswered))
                )

            until(is_there)
            proxy._run(lambda _: None)
            proxy._run(lambda _: None)
            told.settle()
            assert told.taken() == part, (kind, what)
        if (
            looks != "nothing"
            and answers is not None
            and not any(isinstance(each, bytes) for each, _ in answers)
        ):
            check_recorded(proxy, told, answers)
        if row is None:
            until(lambda: (told.settle(), told.is_over)[1])
            assert told.taken() == b""
            return
        assert not told.is_over
        now = told.row()
        told.settle()
        for name in ("resp", "name", "user", "flags", "multi", "db", "sub", "psub", "ssub", "lib-name"):
            assert now.get(name) == row.get(name), name
        proxy._run(lambda _: link.count())
        if not link._matches:
            # What such a transaction leaves behind is not followed (docs/testing/proxy.md).
            assert re.search("MULTI.*(REPLY|SUBSCRIBE).*EXEC", str(steps).upper())
            return
        session = link.session
        told_all = all(
            got or not isinstance(each, tuple) or not {"wrong", "99", "4", "NOPE"} & {*each}
            for each, got in answers or ()
        )
        if told_all and (answers is not None or replies):
            assert (session.resp, session.name.decode(), session.user.decode(), session.library.decode(), session.database) == (
                int(now.get("resp", session.resp)), now["name"], now["user"], now.get("lib-name", session.library.decode()), int(now["db"]),
            )  # fmt: skip
        state = (
            session.monitors, link._transaction is None, [each for each in link._unanswered if each is None or not each.is_unsure],
            *map(len, (session._channels[kind] for kind in ("", "p", "s"))), link._is_held,
        )  # fmt: skip
        assert state == (
            "O" in now["flags"], "x" not in now["flags"], [],
            int(now["sub"]), int(now["psub"]), int(now.get("ssub", 0)), False,
        )  # fmt: skip


def made(chance, kind):
    """A random story."""
    # See the test of wrong passwords.
    sent = SENT if kind != "redis810" else [each for each in SENT if "wrong" not in each]
    steps = []
    for _ in range(chance.randint(1, 5)):
        if steps and chance.random() < 0.4:
            steps.append(("other", chance.choice(OTHERS)))
        else:
            commands = [_command(chance, sent) for _ in range(chance.randint(1, 6))]
            steps.append(("send", commands))
    if chance.random() < 0.05:
        steps.append(("send", [chance.choice(WRONG)]))
    return steps


def _command(chance, sent):
    return chance.choice(INLINE if chance.random() < 0.05 else sent)


@pytest.mark.parametrize("looks", LOOKS)
def test_random_stories_end_as_without_a_proxy(proxy, real, looks):
    for seed in range(STORIES):
        chance = Random(f"{seed} {looks}")
        steps = made(chance, real.kind)
        try:
            compare(proxy, real, steps, chance, looks)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {steps}") from error


@pytest.mark.parametrize(
    "line", ["REPLCONF ACK 1", "REPLCONF capa eof getack *", "MULTI | REPLCONF ACK 1 | EXEC"]
)
def test_a_client_that_speaks_as_a_replica_is_not_followed_any_more(proxy, real, line):
    with contextlib.closing(Told(real, proxy.port)) as told, proxy.fault(command="GET", close="after"):
        commands = [*_lines(line), ("GET", "n"), ("PING",)]
        told.send(b"".join(map(told.bytes_of, commands)))
        until(lambda: (told.read(), told.got.endswith(b"$-1\r\n+PONG\r\n"))[1])


@pytest.mark.parametrize(
    "line",
    [
        "PING",
        "SET k v | GET k | LPUSH l 1 | LRANGE l 0 -1 | GET no | NOPE",
        "SUBSCRIBE a b | UNSUBSCRIBE a b",
        "SUBSCRIBE a b | PSUBSCRIBE p | UNSUBSCRIBE | PUNSUBSCRIBE",
        "UNSUBSCRIBE | PUNSUBSCRIBE | SUNSUBSCRIBE",
        "CLIENT REPLY OFF | SET k v | NOPE | CLIENT REPLY ON",
        "CLIENT REPLY SKIP | SET k v | GET k",
        "CLIENT REPLY SKIP | CLIENT REPLY SKIP | GET k | CLIENT REPLY SKIP | CLIENT REPLY ON | GET k",
        "MULTI | SET k v | NOPE | EXEC | MULTI | GET k | EXEC",
        "HELLO 3 | HGETALL h | HELLO 2 | HGETALL h | HELLO 3",
        "HELLO 3 | SUBSCRIBE a b | GET k | UNSUBSCRIBE | UNSUBSCRIBE x",
        "SUBSCRIBE | GET k",
        "SUBSCRIBE a | RESET | GET k",
        "AUTH bob wrong",
        "HELLO 3 AUTH bob wrong",
        "PING | AUTH bob wrong",  # 8.10.2 has no reply for it
        "PING | HELLO 3 AUTH bob wrong | AUTH bob wrong | PING",
        "PING | AUTH bob wrong | CLIENT REPLY ON",
        "PING | HELLO 3 AUTH bob wrong | MULTI | EXEC",
        "MULTI | SUBSCRIBE a b | CLIENT REPLY SKIP | EXEC x | PING",
        "SCRIPT DEBUG NO",
        "PING | PSYNC | SYNC x",
        "MONITOR | MONITOR | SYNC",
        "CLIENT REPLY OFF | RESET",
        "CLIENT REPLY SKIP | RESET",
        "CLIENT REPLY OFF | SUBSCRIBE a b | CLIENT REPLY ON | UNSUBSCRIBE | CLIENT REPLY ON",
        "CLIENT REPLY SKIP | SUBSCRIBE a b | UNSUBSCRIBE",
        "MULTI | MULTI | MULTI x | EXEC x | EXEC",
    ],
)
@pytest.mark.parametrize("looks", ["from the beginning", "later", "later, recorded"])
def test_the_reply_that_is_lost_behind_a_state_is_that_of_its_request(proxy, real, line, looks):
    with contextlib.closing(Told(real, proxy.port)) as told, contextlib.ExitStack() as stack:
        fault = proxy.fault(command="INCR", close="after", expect_hits=1)
        if looks == "later, recorded":
            stack.enter_context(proxy.recording())
        elif looks != "later":
            stack.enter_context(fault)
        told.send(b"".join(map(told.bytes_of, [*_lines(line), ("ECHO", "end")])))
        until(lambda: (told.read(), b"$3\r\nend\r\n" in told.got)[1])
        told.taken()
        if looks != "from the beginning":
            stack.enter_context(fault)
        told.send(b"".join(map(told.bytes_of, [("ECHO", "one"), ("INCR", "n"), ("INCR", "n")])))
        until(lambda: (told.read(), told.is_over)[1])
        assert re.sub(rb"\+TIME [^\r]*\r\n", b"", told.taken()) == b"$3\r\none\r\n"
    assert proxy._command(b"GET", b"n") == (None if "MONITOR" in line else b"1")  # which is not near keys
