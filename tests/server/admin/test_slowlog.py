import pytest

from rillet.commands.runtime.redaction import redacted


def test_redaction_leaves_the_words_themselves_alone():
    words = [b"HELLO", b"2", b"auth", b"u", b"p"]
    assert redacted(words) == [b"HELLO", b"2", b"auth", b"(redacted)", b"(redacted)"]
    assert words == [b"HELLO", b"2", b"auth", b"u", b"p"]
    assert redacted([b"SET", b"AUTH", b"x"]) == [b"SET", b"AUTH", b"x"]
    assert redacted([b"auth", b"p"]) == [b"auth", b"(redacted)"]
    assert redacted([b"CONFIG", b"SET", b"RequirePass", b"p"])[2:] == [b"RequirePass", b"(redacted)"]


def test_an_entry_shows_the_client_and_the_time(rillet_process):
    with rillet_process.wire() as wire:
        wire.do("CLIENT SETNAME me; CONFIG SET slowlog-log-slower-than 0; SLOWLOG RESET; PING")
        entry = wire.call("SLOWLOG", "GET", 1).plain()[0]
        address = wire.call("CLIENT", "INFO").value.decode().split(" addr=")[1].split(" ")[0]
        now = int(wire.call("TIME").plain()[0])
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
    assert entry[3:] == [[b"PING"], address.encode(), b"me", 1]
    assert now - 60 < entry[1] <= now
    assert entry[2] >= 0


def test_only_the_newest_are_kept(rillet_process):
    with rillet_process.wire() as wire:
        wire.do("CONFIG SET slowlog-max-len 3; CONFIG SET slowlog-log-slower-than 0")
        for number in range(6):
            wire.call("ECHO", number)
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        words = [entry[3] for entry in wire.call("SLOWLOG", "GET").plain()]
        wire.call("CONFIG", "SET", "slowlog-max-len", 128, "slowlog-log-slower-than", 10_000)
    # The threshold that CONFIG SET has set holds for itself already.
    assert words == [[b"ECHO", b"5"], [b"ECHO", b"4"], [b"ECHO", b"3"]]


@pytest.mark.parametrize(
    "directive", ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "TLS-client-key-file-pass"]
)
def test_every_secret_directive_is_hidden(directive):
    words = [b"config", b"SET", b"maxmemory", b"0", directive.encode(), b"secret"]
    assert redacted(words) == [*words[:-1], b"(redacted)"]
