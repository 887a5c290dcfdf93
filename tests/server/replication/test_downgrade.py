"""What replicas receive if one does not know the stream commands of Redis 8.2 and later."""

import pytest
from support.deployments.replication import call, follow, in_step, picture
from support.wire import commands

# What an old replica must be able to follow: with it each command leaves the same there as here.
STORY = commands("""
    XADD s 1-0 f v; XADD s 2-0 f v; XADD s 3-0 f v; XADD s 4-0 f v; XADD s 5-0 f v; XADD s 6-0 f v
    XADD s 7-0 f v; XADD s 8-0 f v; XADD s 9-0 f v; XGROUP CREATE s g 0; XGROUP CREATE s h 0
    XREADGROUP GROUP g c COUNT 8 STREAMS s >; XREADGROUP GROUP h c COUNT 8 STREAMS s >
    XDELEX s DELREF IDS 2 1-0 99-0; XACKDEL s g KEEPREF IDS 2 2-0 2-0; XACKDEL s g DELREF IDS 1 3-0
    XACKDEL s g ACKED IDS 1 4-0; XACKDEL s h ACKED IDS 1 4-0; XDELEX s ACKED IDS 1 5-0; XACK s g 6-0
    XACK s h 6-0; XTRIM s MAXLEN 3 ACKED; XTRIM s MAXLEN 3 DELREF; XADD s KEEPREF MAXLEN ~ 100 10-0 f v
    XADD s DELREF MAXLEN 2 11-0 f v; XACK s g 8-0; XACK s h 8-0; XADD s ACKED MAXLEN 1 12-0 f v
    XREADGROUP GROUP g c STREAMS s >; XREADGROUP GROUP h c NOACK STREAMS s >; XACK s g 10-0 11-0 12-0
    XTRIM s ACKED MINID 12-0; XTRIM s ACKED MAXLEN 0; XADD s IDMP p i * f first; XADD s IDMP p i * f again
""")


NEWEST = ("--compat-version", "8.10", "--repl-ping-replica-period", "3600")


@pytest.fixture
def master(started):
    return started("rillet", *NEWEST)


def state(server) -> list[object]:
    return [
        call(server, *words)
        for words in (
            ("XRANGE", "s", "-", "+"),
            ("XPENDING", "s", "g", "-", "+", "100", "c"),
            ("XPENDING", "s", "h", "-", "+", "100", "c"),
        )
    ]


def without_idle(seen: list[object]) -> list[object]:
    return [seen[0], *[[(entry[0], entry[1], entry[3]) for entry in pending] for pending in seen[1:]]]


@pytest.mark.parametrize("kind", ["redis7", "valkey", "rillet"])
def test_every_kind_of_replica_holds_the_same_entries_and_references(started, master, kind):
    for line in STORY[:11]:
        call(master, *line)
    replica = started(kind, *NEWEST) if kind == "rillet" else started(kind)
    follow(replica, master.port)
    for line in STORY[11:]:
        call(master, *line)
        in_step(master, replica)
        assert without_idle(state(replica)) == without_idle(state(master)), line
    assert len(state(master)[0]) == 1


NEWEST_ONLY = commands("""
    XADD t IDMP p i * f v; XADD t IDMP p i * f again; XADD t IDMPAUTO p * f v; XCFGSET t IDMP-MAXSIZE 7
    XADD t IDMP p j * f v; XADD s 20-0 f v; XADD s 21-0 f v; XREADGROUP GROUP g c COUNT 1 STREAMS s >
    XNACK s g SILENT IDS 1 12-0; XNACK s g FATAL IDS 2 20-0 21-0 FORCE
    XREADGROUP GROUP g d COUNT 1 CLAIM 1000000 STREAMS s >
    XREADGROUP GROUP g d MAXCOUNT 1 MAXSIZE 1 STREAMS s >
""")


def test_a_rillet_follows_everything_by_the_stream_and_by_a_snapshot(started, master):
    replica, late = started("rillet", *NEWEST), started("rillet", *NEWEST)
    follow(replica, master.port)
    for line in (*STORY[:-2], *NEWEST_ONLY):
        call(master, *line)
    in_step(master, replica)
    seen = picture(master)
    assert "nacked-count" in str(seen[0, b"s"])
    assert seen[0, b"t"][2][0][b"iids-duplicates"] == 1
    assert picture(replica) == seen
    follow(late, master.port)
    assert picture(late) == seen


def _lower(words: str) -> str:
    name, *rest = words.split()
    return " ".join([name.lower(), *rest])


def received(master, connect, version, *lines: str) -> list[str]:
    """What a replica of a version hears of the last of these commands."""
    return each_received(master, connect, version, lines[:-1], lines[-1:])[0]


def each_received(master, connect, version, setup, lines) -> list[list[str]]:
    """Return what a replica of a version receives for each command, on freshly created data."""
    replica = connect(master, "eof", "psync2")
    if version:
        replica.call("REPLCONF", *version.split())
    replica.acknowledged_sync()
    heard: list[list[str]] = []
    for line in lines:
        with master.wire() as wire:
            for words in ("FLUSHALL", *setup, "SET mark 1", line, "SET mark 2"):
                wire.call(*words.split())
        while replica.command() != [b"set", b"mark", b"1"]:
            pass
        heard.append([])
        while (command := replica.command()) != [b"set", b"mark", b"2"]:
            heard[-1].append(b" ".join(command).decode())
    return heard


SETUP = (
    *[f"XADD s {number}-0 f v" for number in range(1, 5)],
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s h 0",
    "XREADGROUP GROUP g c STREAMS s >",
    "XREADGROUP GROUP h c STREAMS s >",
    "XACK s g 2-0",
    "XACK s h 2-0",
)


DOWNGRADED = [
    ("XDELEX s IDS 2 1-0 99-0", ["XDEL s 1-0"]),
    ("XDELEX s DELREF IDS 2 1-0 2-0", ["XACK s g 1-0", "XACK s h 1-0", "XDEL s 1-0 2-0"]),
    ("XDELEX s ACKED IDS 2 1-0 2-0", ["XDEL s 2-0"]),
    ("XACKDEL s g IDS 3 1-0 2-0 1-0", ["XACK s g 1-0", "XDEL s 1-0"]),
    ("XACKDEL s g DELREF IDS 1 1-0", ["XACK s g 1-0", "XACK s h 1-0", "XDEL s 1-0"]),
    ("XACKDEL s g ACKED IDS 1 1-0", ["XACK s g 1-0"]),
    ("XTRIM s MAXLEN 3 KEEPREF", ["XTRIM s MAXLEN = 3"]),
    ("XTRIM s MINID 3 DELREF", ["XTRIM s MINID = 3", "XACK s g 1-0", "XACK s h 1-0"]),
    ("XTRIM s MAXLEN 0 ACKED", ["XDEL s 2-0"]),
    ("XADD s DELREF MAXLEN ~ 100 LIMIT 5 9-0 f v", ["XADD s MAXLEN = 5 9-0 f v"]),
    ("XADD s NOMKSTREAM ACKED MINID 4 9-0 f v", ["XADD s 9-0 f v", "XDEL s 2-0"]),
]


@pytest.mark.parametrize(
    "version", ["", "version 7.0.15", "version 8.1.4", "version 9.1.2", "capa rillet-8.0"]
)
def test_newer_commands_reach_replicas_in_older_forms(master, connect, version):
    heard = each_received(master, connect, version, SETUP, [line for line, _ in DOWNGRADED])
    for (line, older), found in zip(DOWNGRADED, heard, strict=True):
        expected = ["multi", *older, "exec"] if len(older) > 1 else older
        assert found == [_lower(words) for words in expected], line


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("XDELEX s IDS 1 1-0", "capa rillet-8.2"),
        ("XTRIM s MAXLEN = 1 DELREF", "capa rdb-channel-repl"),
        ("XADD s IDMP p i 9-0 f v", "capa rillet-8.6"),
        ("XNACK s g FAIL IDS 1 1-0", "capa rdb-channel-repl"),
    ],
)
def test_a_command_that_a_replica_knows_is_sent_unchanged(master, connect, line, version):
    asked = line.replace("9-0", "*")
    (heard,) = received(master, connect, version, *SETUP, asked)
    words = heard.split()
    if "IDMP" in line:
        words[5] = "9-0"
    assert " ".join(words) == _lower(line)


def test_the_append_only_file_keeps_the_new_words(started, connect):
    master = started("rillet", "--appendonly", "yes", *NEWEST)
    received(master, connect, "", *SETUP, "XDELEX s DELREF IDS 1 1-0")
    data = b"".join(path.read_bytes() for path in (master.dir / "appendonlydir").glob("*.incr.aof"))
    assert b"XDELEX" in data
    assert b"XDEL\r\n" not in data
