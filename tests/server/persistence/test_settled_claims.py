"""Claims of a file that are settled with their acknowledgements leave what the records leave one by one."""

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.invariants import check_invariants
from support.live import words
from support.thorough import examples

from rillet.commands.runtime.step_sizes import ServerTuning
from rillet.protocol.errors import ReplyError
from rillet.server.config.config import Config
from rillet.server.persistence import aof_replay
from rillet.server.persistence.aof_replay import LoaderClient, replay
from rillet.server.persistence.settled_claims import SettledClaims
from rillet.server.server import Server
from rillet.storage.streams.stream import Stream

N = 12
NOW = 1_700_000_000_000
SETUP = [
    *(f"XADD s {ms}-0 f v" for ms in range(1, N + 1)),
    "XDEL s 5-0 6-0",
    *(f"XGROUP CREATE s {group} 0" for group in "gh"),
    *(f"XGROUP CREATECONSUMER s {group} {name}" for group in "gh" for name in "cd"),
    "XGROUP CREATE t g 0 MKSTREAM",
    "XGROUP CREATECONSUMER t g c",
]


def claim(ms, *, group="g", consumer="c", time=NOW, count=1, last="0-0"):
    return f"XCLAIM s {group} {consumer} 0 {ms} TIME {time} RETRYCOUNT {count} FORCE JUSTID LASTID {last}"


def batch_of(*lines: str) -> list[list[bytes]]:
    return words("\n".join(lines)) if lines else []


def assembled(lines):
    """The lines with their IDs: NEXT is that of one more entry, NEWEST the one before it, ADDED how many were added."""
    added = N
    found = []
    for line in lines:
        added += "NEXT" in line
        numbers = {"NEXT": added, "NEWEST": added, "OLDER": added - 1, "SOON": added + 1}
        ids = {word: f"{number}-0" for word, number in numbers.items()} | {"ADDED": str(added)}
        found.append(" ".join([ids.get(word, word) for word in line.split(" ")]))
    return found


ID = st.one_of(st.integers(1, N + 1).map("{}-0".format), st.sampled_from(["NEWEST", "OLDER", "SOON"]))
CLAIM = st.builds(
    claim,
    ID,
    consumer=st.sampled_from("ccd"),
    time=st.sampled_from([NOW, NOW - 1, NOW + 5]),
    count=st.integers(0, 2),
    last=st.one_of(st.just("0-0"), ID),
)
ACK = st.lists(ID, min_size=1, max_size=3).map(lambda ids: f"XACK s g {' '.join(ids)}")
SET_ID = st.builds("XGROUP SETID s g {} ENTRIESREAD {}".format, ID, st.integers(0, 2 * N))
# A read as Redis 7.0 writes it, and as 8 does; the acknowledgements may be those of others.
READ = st.builds(
    lambda ms, who, ack: [claim(ms, consumer=who, last=ms), f"XACK s g {ack}"], ID, st.sampled_from("cd"), ID
)
WORK = st.builds(
    lambda ms, who: [
        *("MULTI", claim(f"{ms}-0", consumer=who, last=f"{ms - 1}-0")),
        *(f"XGROUP SETID s g {ms}-0 ENTRIESREAD {ms}", "EXEC", f"XACK s g {ms}-0"),
    ],
    st.integers(1, N),
    st.sampled_from("cd"),
)
ODD = st.sampled_from(
    [
        claim("8-0", consumer="d").replace(" s ", " t "), claim("3-0", last="x"), claim("3-0", last="9"), claim("x"),
        claim("3"), claim("03-0"), claim("3-0", group="h"), claim("3-0", group="missing"),
        claim("5-0", consumer="new"), claim("4-0").replace("FORCE", "JUSTID"),
        claim("4-0").replace(" 0 4-0", " 5 4-0"), claim("4-0", time="x"), claim("4-0", count=-1),
        "xclaim s g c 0 7-0 JUSTID", "XACK s g 3", "XACK s g 03-0 4-0", "XACK s g x", "XACK s h 3-0",
        "XACK missing g 3-0", "XADD s 40-0 f v", "XADD s 1-0 f v", "XADD s 13 f v", "XADD s 013-0 f v",
        "XADD s NEXT f v g", "XADD s MAXLEN 4 NEXT f v", "XADD s MAXLEN ~ 4", "XADD s * f v", "XADD missing NEXT f v",
        "XADD t 2-0 f v", "XSETID s 60-0", "XTRIM s MAXLEN 3", "XDEL s NEWEST", "XDEL s 4-0", "XGROUP SETID s g $",
        "XGROUP SETID s g 4-0 ENTRIESREAD -1", "XGROUP DELCONSUMER s g c", "XGROUP DESTROY s h", "SET s v",
    ]
)  # fmt: skip
PAIRS = st.integers(1, N - 3).map(
    lambda first: [line for ms in range(first, first + 4) for line in (claim(f"{ms}-0"), f"XACK s g {ms}-0")]
)
# Entries that are read as they come, as Redis 7.0 and 8 write it, by consumers of some groups and streams.
ADD = "XADD s NEXT f v"
LIVE_7 = st.sampled_from("cd").map(
    lambda who: [ADD, claim("NEWEST", consumer=who, last="NEWEST"), "XACK s g NEWEST"]
)
LIVE_8 = st.builds(
    lambda who, read: [
        *(ADD, "MULTI", claim("NEWEST", consumer=who, last="OLDER")),
        *(f"XGROUP SETID s g NEWEST ENTRIESREAD {read}", "EXEC", "XACK s g NEWEST"),
    ],
    st.sampled_from("cd"),
    st.sampled_from(["ADDED", "ADDED", "ADDED", str(N), str(3 * N)]),
)
LIVE_OTHERS = st.permutations(range(1, 7)).map(
    lambda odd: [
        line
        for ms, other in enumerate(odd, 1)
        for line in (
            ADD,
            f"XADD t {ms}-0 f v",
            *[claim("NEWEST", group=group) for group in "gh"],
            claim(f"{ms}-0").replace("XCLAIM s", "XCLAIM t"),
            "XACK s g NEWEST",
            f"XACK s h {other}-0",
            f"XACK t g {other}-0",
        )
    ]
)


def flat(pieces: st.SearchStrategy[list[str]], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(pieces, min_size=2, max_size=most).map(
        lambda each: [line for some in each for line in some]
    )


LIVE_MIXED = st.one_of(st.just(ADD), st.just(ADD), CLAIM, ACK, SET_ID, ODD)
PIECE = st.one_of(
    flat(LIVE_7, 8),
    flat(LIVE_8, 8),
    LIVE_OTHERS,
    st.lists(LIVE_MIXED, min_size=4, max_size=20),
    flat(READ, 6),
    flat(WORK, 6),
    st.lists(st.one_of(CLAIM, ACK), min_size=4, max_size=20),
    st.lists(st.one_of(CLAIM, ACK, SET_ID), min_size=4, max_size=20),
    PAIRS,
    ODD.map(lambda line: [line]),
)


def begun(**config: str) -> LoaderClient:
    """The client that loads a file, after the records of SETUP."""
    server = Server(Config(**config), quiet=True)
    server.clock.freeze(NOW)
    server.keyspace.now = NOW - 1000
    client = LoaderClient(server)
    replay(server, mock.Mock(), client, batch_of(*SETUP))
    return client


def loaded(batch: list[list[bytes]]) -> list[object]:
    """What a server shows after it has replayed a batch a second after its consumers were made, and what it has logged."""
    client = begun()
    server = client.server
    server.keyspace.now = NOW
    with mock.patch.object(server.log, "warning") as warning:
        replay(server, mock.Mock(), client, batch)
    for stream in server.keyspace.databases[0].entries.values():
        if type(stream) is Stream:
            check_invariants(stream)
            for group in stream.groups.values():
                check_invariants(group)
    found: list[object] = [server.keyspace.hits, server.keyspace.misses, warning.mock_calls]
    looks = [f"XINFO STREAM {key} FULL COUNT 0" for key in ("s", "t", "missing")]
    looks += ["XINFO GROUPS s", "XINFO GROUPS t", "XINFO CONSUMERS s g", "XINFO CONSUMERS s h"]
    looks += [f"XPENDING s {group} IDLE 0 - + 100" for group in "gh"]
    looks += [f"XAUTOCLAIM s {group} e 0 0 COUNT 10 JUSTID" for group in "gh"]
    looks += ["XREADGROUP GROUP g e CLAIM 0 COUNT 20 STREAMS s >", "XPENDING t g IDLE 0 - + 100"]
    handlers = [(server.dispatcher.find(argv).handler, argv) for argv in batch_of(*looks)]
    for handler, argv in handlers:
        try:
            found.append(handler(client, argv))
        except ReplyError as error:
            found.append(error.encoded)
    return found


def general(batch: list[list[bytes]]) -> list[object]:
    """The same where each record runs."""
    with mock.patch.object(SettledClaims, "settle", return_value=0):
        return loaded(batch)


WORKED = [line for ms in range(1, 5) for line in (claim(f"{ms}-0"), f"XACK s g {ms}-0")]


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(PIECE, max_size=6))
def test_settled_claims_leave_what_the_records_leave(pieces):
    batch = batch_of(*assembled([line for piece in pieces for line in piece]))
    _, *found = loaded(batch)
    _, *expected = general(batch)
    assert found == expected
    with mock.patch.object(aof_replay, "join_claims", return_value=None):  # which counts its run as one hit
        assert loaded(batch) == general(batch)


@pytest.mark.parametrize("word", [b"", b"-", b"1-", b"-1"])
def test_no_word_but_an_id_passes_for_one(word):
    odd = [
        [word if each == b"7-0" else each for each in argv] for argv in batch_of(claim("7-0"), "XACK s g 7-0")
    ]
    batch = [*batch_of(*WORKED), *odd]
    assert loaded(batch) == general(batch)


def settled(*lines: str, tuning: ServerTuning | None = None) -> tuple[list[list[bytes]], int]:
    """What is left to run of some records, and how many they are."""
    client = begun()
    client.server.tuning = tuning or client.server.tuning
    left: list[list[bytes]] = []
    number = SettledClaims(client, batch_of(*lines), left.extend).settle(0)
    return left, number


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ([], []),
        ([claim("8-0"), "XACK s g 9-0"], ["XACK s g 9-0", claim("8-0")]),
        ([claim("8-0"), "XACK s g 8-0 9-0 1-0"], ["XACK s g 9-0 1-0"]),
        (
            ["XGROUP SETID s g 4-0 ENTRIESREAD 4", claim("8-0")],
            [claim("8-0"), "XGROUP SETID s g 4-0 ENTRIESREAD 4"],
        ),
    ],
)
def test_what_is_left_of_a_run_is_in_order(others, left):
    assert settled(*WORKED, *others) == (batch_of(*left), len(WORKED) + len(others))


@pytest.mark.parametrize(
    "other",
    [
        claim("8-0", group="missing"), claim("8-0").replace(" s ", " string "), claim("08-0"), claim("13-0"),
        claim("8-0", consumer="new"), "XACK s missing 8-0", "XACK missing g 8-0", "XACK s g 08-0", "XADD s 12-0 f v",
        "XADD s 13 f v", "XADD s 013-0 f v", "XADD s * f v", "XADD s 13-0 f v f", "XADD s MAXLEN 4 13-0 f v",
        "XADD s MAXLEN 4 5", "XADD missing 13-0 f v", "XGROUP SETID s missing 4-0 ENTRIESREAD 4",
        "XGROUP SETID s g 4-0 ENTRIESREAD 13", "XGROUP CREATE s i 4-0 ENTRIESREAD 4",
        "XGROUP SETID s g $ ENTRIESREAD 4", "XGROUP SETID s g 4-0 ENTRIESREAD x",
        "XGROUP SETID s g 4-0 ENTRIESREAD 07", claim("8-0", time="01"), claim("8-0", count="01"),
    ],
)  # fmt: skip
def test_a_run_ends_before_other_records(other):
    assert settled(*WORKED, other, *WORKED) == ([], len(WORKED))


LIVE = assembled([line for _ in range(4) for line in (ADD, claim("NEWEST"), "XACK s g NEWEST")])


def test_entries_of_a_run_are_added_before_what_is_left_of_it():
    t = ["XADD t 1-0 f v", claim("1-0").replace(" s ", " t ")]
    left, number = settled(*WORKED, *LIVE[:3], *t, claim("8-0"), *LIVE[3:], claim("8-0", group="h"))
    assert number == len(WORKED) + len(LIVE) + 4
    assert left == batch_of(*LIVE[::3], t[0], claim("8-0"), t[1], claim("8-0", group="h"))


def test_a_setid_may_count_what_is_added_before_it():
    assert settled(*WORKED, *LIVE, "XGROUP SETID s g 4-0 ENTRIESREAD 16")[1] == len(WORKED) + len(LIVE) + 1
    assert settled(*WORKED, *LIVE, "XGROUP SETID s g 4-0 ENTRIESREAD 17")[1] == len(WORKED) + len(LIVE)


def test_entries_that_may_be_too_large_are_added_one_by_one():
    lines = [*WORKED, *LIVE, f"XADD s 40-0 f {'v' * 500}"]
    assert settled(*lines, tuning=ServerTuning(entry_bytes=500)) == ([], 0)
    assert settled(*lines)[1] == len(lines)


def test_a_claim_that_moves_the_group_on_does_not_go_before_a_setid():
    set_id = "XGROUP SETID s g 4-0 ENTRIESREAD 4"
    assert settled(*WORKED, set_id, claim("8-0", last="8-0")) == (batch_of(set_id), len(WORKED) + 1)


def test_claims_of_7_0_run_as_they_are():
    # Consumers that got nothing were not seen then.
    lines = [line for ms in (5, 6, 5, 6) for line in (claim(f"{ms}-0"), f"XACK s g {ms}-0")]
    client = begun(compat_version="7.0")
    assert SettledClaims(client, batch_of(*lines), mock.Mock()).settle(0) == 0


def test_few_claims_run_as_they_are():
    assert settled(*WORKED[:6]) == ([], 0)


@pytest.mark.parametrize("far", [f"XACK s g {' '.join(f'{ms}-0' for ms in range(1, 400))}", "PING"])
def test_records_are_looked_at_once_where_none_is_settled(far):
    batch = batch_of(*[claim(f"{ms}-1") for ms in range(1, 400)], far)
    claims = SettledClaims(begun(), batch, mock.Mock())
    with mock.patch("rillet.server.persistence.settled_claims._number", return_value=1) as number:
        assert [claims.settle(at) for at in range(399)] == [0] * 399
    assert number.call_count < 2 * 257
