import pytest
from support.servers import start_server

from rillet.commands.runtime.redaction import redacted


@pytest.fixture(scope="module")
def servers():
    with start_server("rillet") as rillet, start_server("redis7") as redis:
        yield rillet, redis


def remembered(server, *commands):
    """The words, newest first, that SLOWLOG keeps of commands."""
    with server.wire() as wire:
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        wire.call("SLOWLOG", "RESET")
        for words in commands:
            wire.call(*words)
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        entries = wire.call("SLOWLOG", "GET", -1).plain()
        assert wire.call("SLOWLOG", "LEN").plain() == len(entries)
        assert [entry[0] for entry in entries] == sorted((entry[0] for entry in entries), reverse=True)
    # Redis remembers RESET itself and CONFIG SET.
    return [entry[3] for entry in entries if entry[3][0] != b"SLOWLOG" and b"-1" not in entry[3]]


@pytest.mark.parametrize(
    "words",
    [
        ("XADD", "s", "*", "a", "b"),
        ("SET", "k", "x" * 129),
        ("SET", "k", "x" * 128),
        ("MSET", *(str(number) for number in range(40))),
        ("DEL", *(str(number) for number in range(31))),
        ("DEL", *(str(number) for number in range(32))),
        ("AUTH", "secret"),
        ("AUTH", "somebody", "secret"),
        ("HELLO", "2", "AUTH", "default", "secret", "SETNAME", "x"),
        ("HELLO", "2", "SETNAME", "x", "AUTH", "default"),
        ("CONFIG", "SET", "masterauth", "secret", "maxmemory", "0", "masteruser", "x"),
        ("CONFIG", "SET", "masterauth"),
        ("ACL", "SETUSER", "bob", ">secret", "on"),
    ],
)
def test_it_remembers_the_words_that_redis_remembers(servers, words):
    ours, theirs = (remembered(server, words) for server in servers)
    assert ours == theirs


def test_redaction_leaves_the_words_themselves_alone():
    words = [b"HELLO", b"2", b"auth", b"u", b"p"]
    assert redacted(words) == [b"HELLO", b"2", b"auth", b"(redacted)", b"(redacted)"]
    assert words == [b"HELLO", b"2", b"auth", b"u", b"p"]
    assert redacted([b"SET", b"AUTH", b"x"]) == [b"SET", b"AUTH", b"x"]
    assert redacted([b"auth", b"p"]) == [b"auth", b"(redacted)"]
    assert redacted([b"CONFIG", b"SET", b"RequirePass", b"p"]) == [
        b"CONFIG",
        b"SET",
        b"RequirePass",
        b"(redacted)",
    ]


def test_an_entry_shows_the_client_and_the_time(servers):
    with servers[0].wire() as wire:
        wire.call("CLIENT", "SETNAME", "me")
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        wire.call("SLOWLOG", "RESET")
        wire.call("PING")
        entry = wire.call("SLOWLOG", "GET", 1).plain()[0]
        address = wire.call("CLIENT", "INFO").value.decode().split(" addr=")[1].split(" ")[0]
        now = int(wire.call("TIME").plain()[0])
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
    assert entry[3:] == [[b"PING"], address.encode(), b"me", 1]
    assert now - 60 < entry[1] <= now
    assert entry[2] >= 0


def test_only_the_newest_are_kept(servers):
    with servers[0].wire() as wire:
        wire.call("CONFIG", "SET", "slowlog-max-len", 3)
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        for number in range(6):
            wire.call("ECHO", number)
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        words = [entry[3] for entry in wire.call("SLOWLOG", "GET").plain()]
        wire.call("CONFIG", "SET", "slowlog-max-len", 128)
    # The threshold that CONFIG SET has set holds for itself already.
    assert words == [[b"ECHO", b"5"], [b"ECHO", b"4"], [b"ECHO", b"3"]]


def test_exec_is_not_remembered_but_what_it_runs_is(servers):
    ours, theirs = (remembered(server, ("MULTI",), ("SET", "k", "v"), ("EXEC",)) for server in servers)
    assert [b"SET", b"k", b"v"] in ours
    assert ours == theirs


@pytest.mark.parametrize(
    "directive",
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "TLS-client-key-file-pass"],
)
def test_every_secret_directive_is_hidden(directive):
    words = [b"config", b"SET", b"maxmemory", b"0", directive.encode(), b"secret"]
    assert redacted(words) == [*words[:-1], b"(redacted)"]
