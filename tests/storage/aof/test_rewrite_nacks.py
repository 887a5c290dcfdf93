"""The entries without owner in a rewritten append-only file."""

from support.aof import read_commands
from support.fake_server import make_client, reply, run
from support.groups import group_client

from rillet.storage.aof.rewrite import rewrite_commands


def rewritten(client) -> list[list[bytes]]:
    return read_commands(b"".join(rewrite_commands(client.server.keyspace)))


def test_they_come_after_the_consumers_in_their_order_by_counters():
    client = group_client(5)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    for words in ("FAIL IDS 2 3-0 1-0", "FATAL IDS 1 2-0", "FAIL IDS 1 5-0"):
        run(client, "XNACK", "s", "g", *words.split())
    lines = [b" ".join(words).decode() for words in rewritten(client)]
    assert lines[-4].startswith("XCLAIM s g c 0 4-0 ")
    assert lines[-3:] == [
        "XNACK s g FAIL IDS 2 3-0 1-0 RETRYCOUNT 1 FORCE",
        "XNACK s g FAIL IDS 1 2-0 RETRYCOUNT 9223372036854775807 FORCE",
        "XNACK s g FAIL IDS 1 5-0 RETRYCOUNT 1 FORCE",
    ]


def test_at_most_64_share_a_command_and_a_replay_has_them_all():
    client = group_client(150)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    ids = [f"{ms}-0" for ms in range(150, 0, -1)]
    run(client, "XNACK", "s", "g", "SILENT", "IDS", "150", *ids)
    commands = rewritten(client)
    assert [words[5] for words in commands if words[0] == b"XNACK"] == [b"64", b"64", b"22"]
    other = make_client()
    other.trusted = other.replays = True
    for words in commands:
        if words[0] != b"SELECT":
            run(other, *words)
    assert reply(other, "XPENDING", "s", "g", "-", "+", "200") == reply(
        client, "XPENDING", "s", "g", "-", "+", "200"
    )
    group = other.db.entries[b"s"].groups[b"g"]
    assert [each.text.decode() for each in group.pel.given_back(group.unowned)] == ids
