"""Random commands on one stream, beside a plain model of it: replies, the whole state, and what a replay makes of it."""

from typing import Any

import hiredis
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run
from support.groups import FAMILIES
from support.streams.pending import given_back
from support.streams.stream_model import NODE_ENTRIES, StreamModel, text
from support.thorough import examples

from rillet.commands.streams import xack, xdel

FAMILIES += (xack, xdel)  # importing them is what registers the commands

ID = st.tuples(st.integers(1, 12), st.integers(0, 1))
NEW_ID = st.tuples(st.integers(1, 40), st.integers(0, 1))
IDS = st.lists(ID, min_size=1, max_size=4)
GROUP = st.sampled_from([b"g", b"g", b"g", b"h"])
CONSUMER = st.sampled_from([b"a", b"b", b""])
POLICY = st.sampled_from(["", "KEEPREF", "DELREF", "ACKED"])
MAYBE_COUNT = st.none() | st.integers(0, 3)
IDLE = st.sampled_from([0, 0, 1, 5, 20])


@st.composite
def trims(draw: Any) -> dict[str, Any]:
    approximate = draw(st.booleans())
    strategy = draw(st.sampled_from(["MAXLEN", "MINID"]))
    return {
        "strategy": strategy,
        "threshold": draw(st.integers(0, 6) if strategy == "MAXLEN" else ID),
        "approximate": approximate,
        "limit": draw(st.integers(0, 5)) if approximate else 0,
        "policy": draw(POLICY),
    }


OPERATION = st.one_of(
    st.tuples(st.just("xadd"), NEW_ID, st.none() | trims()),
    st.tuples(st.just("xadd"), st.just(None), st.none() | trims()),
    st.tuples(st.just("xadd"), st.just(None), st.none()),
    st.tuples(st.just("xtrim"), trims()),
    st.tuples(st.just("xdel"), IDS),
    st.tuples(st.just("xdelex"), POLICY, IDS),
    st.tuples(st.just("create"), GROUP, st.sampled_from([(0, 0), (3, 0)])),
    st.tuples(st.just("setid"), GROUP, ID | st.just((0, 0)), st.none() | st.integers(0, 30)),
    st.tuples(st.just("destroy"), st.just(b"h")),
    st.tuples(st.just("createconsumer"), GROUP, CONSUMER),
    st.tuples(st.just("delconsumer"), GROUP, CONSUMER),
    st.tuples(st.just("xack"), GROUP, IDS),
    st.tuples(st.just("xackdel"), GROUP, POLICY, IDS),
    st.tuples(
        st.just("xnack"),
        GROUP,
        st.sampled_from(["SILENT", "FAIL", "FATAL"]),
        IDS,
        st.none() | st.integers(0, 3),
        st.booleans(),
    ),
    st.tuples(
        st.just("xclaim"),
        GROUP,
        CONSUMER,
        IDLE,
        IDS,
        st.none() | st.integers(0, 30),
        st.none() | st.integers(0, 3),
        st.booleans(),
        st.booleans(),
        st.none() | ID,
    ),
    st.tuples(
        st.just("xautoclaim"), GROUP, CONSUMER, IDLE, ID | st.just((0, 0)), st.integers(1, 4), st.booleans()
    ),
    st.tuples(
        st.just("read"),
        GROUP,
        CONSUMER,
        st.just(None),
        MAYBE_COUNT,
        st.none() | st.integers(1, 4),
        st.none() | st.integers(1, 120),
        st.none() | IDLE,
        st.booleans(),
    ),
    st.tuples(
        st.just("read"),
        GROUP,
        CONSUMER,
        ID | st.just((0, 0)),
        MAYBE_COUNT,
        st.none() | st.integers(1, 4),
        st.none() | st.integers(1, 120),
        st.none() | IDLE,
        st.booleans(),
    ),
    st.tuples(st.just("xpending"), GROUP, IDLE, st.none() | CONSUMER),
    st.tuples(st.just("wait"), st.integers(-2, 10)),
)


def option(name: str, value: Any) -> list[Any]:
    return [] if value is None else [name, value]


def trim_words(trim: dict[str, Any]) -> list[Any]:
    threshold = trim["threshold"]
    words = [
        trim["strategy"],
        "~" if trim["approximate"] else "=",
        threshold if isinstance(threshold, int) else text(threshold),
    ]
    words += ["LIMIT", trim["limit"]] if trim["approximate"] else []
    return words + ([trim["policy"]] if trim["policy"] else [])


def numbered(ids: list[tuple[int, int]]) -> list[Any]:
    return ["IDS", len(ids), *map(text, ids)]


class Pair:
    """The server and its model, driven alike."""

    def __init__(self) -> None:
        self.client = make_client(
            server=FakeServer(stream_node_max_entries=NODE_ENTRIES, stream_node_max_bytes=0)
        )
        self.model = StreamModel()
        self.history = False
        self.next_ms = 0
        run(self.client, "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        self.model.xgroup_create(b"g", (0, 0))

    def do(self, operation: tuple[Any, ...]) -> None:
        name, *rest = operation
        expected, words = getattr(self, "_" + name)(*rest)
        if words is None:
            return
        answer = reply(self.client, *words)
        if isinstance(answer, hiredis.ReplyError):
            answer = str(answer).split(" ", 1)[0]
        assert answer == expected, words
        assert full_info(self.client) == self.model.full(), words

    def _xadd(self, number: Any, trim: Any) -> Any:
        if number is None:
            number = (self.model.last[0], self.model.last[1] + 1) if self.model.last[1] == 0 else None
            number = number or (self.model.last[0] + 1, 0)
        words = ["XADD", "s", *(trim_words(trim) if trim else []), text(number), "f", b"%d" % number[0]]
        return self.model.xadd(number, [b"f", b"%d" % number[0]], trim), words

    def _xtrim(self, trim: Any) -> Any:
        return self.model.xtrim(**trim), ["XTRIM", "s", *trim_words(trim)]

    def _xdel(self, ids: Any) -> Any:
        return self.model.xdel(ids), ["XDEL", "s", *map(text, ids)]

    def _xdelex(self, policy: str, ids: Any) -> Any:
        return self.model.xdelex(policy, ids), ["XDELEX", "s", *numbered(ids), *([policy] if policy else [])]

    def _create(self, group: bytes, last: Any) -> Any:
        return self.model.xgroup_create(group, last), ["XGROUP", "CREATE", "s", group, text(last)]

    def _setid(self, group: bytes, last: Any, read: Any) -> Any:
        words = ["XGROUP", "SETID", "s", group, text(last), *option("ENTRIESREAD", read)]
        return self.model.xgroup_setid(group, last, read), words

    def _destroy(self, group: bytes) -> Any:
        return self.model.xgroup_destroy(group), ["XGROUP", "DESTROY", "s", group]

    def _createconsumer(self, group: bytes, consumer: bytes) -> Any:
        words = ["XGROUP", "CREATECONSUMER", "s", group, consumer]
        return self.model.xgroup_createconsumer(group, consumer), words

    def _delconsumer(self, group: bytes, consumer: bytes) -> Any:
        words = ["XGROUP", "DELCONSUMER", "s", group, consumer]
        return self.model.xgroup_delconsumer(group, consumer), words

    def _xack(self, group: bytes, ids: Any) -> Any:
        return self.model.xack(group, ids), ["XACK", "s", group, *map(text, ids)]

    def _xackdel(self, group: bytes, policy: str, ids: Any) -> Any:
        words = ["XACKDEL", "s", group, *([policy] if policy else []), *numbered(ids)]
        return self.model.xackdel(group, policy, ids), words

    def _xnack(self, group: bytes, mode: str, ids: Any, retry: Any, force: bool) -> Any:
        words = ["XNACK", "s", group, mode, *numbered(ids), *option("RETRYCOUNT", retry)]
        return self.model.xnack(group, mode, ids, retry, force), words + ["FORCE"] * force

    def _xclaim(
        self,
        group: bytes,
        consumer: bytes,
        min_idle: int,
        ids: Any,
        idle: Any,
        retry: Any,
        force: bool,
        just_id: bool,
        last: Any,
    ) -> Any:
        words = ["XCLAIM", "s", group, consumer, min_idle, *map(text, ids)]
        words += option("IDLE", idle) + option("RETRYCOUNT", retry) + ["FORCE"] * force + ["JUSTID"] * just_id
        words += option("LASTID", None if last is None else text(last))
        expected = self.model.xclaim(
            group, consumer, min_idle, ids, idle=idle, retry=retry, force=force, just_id=just_id, last=last
        )
        return expected, words

    def _xautoclaim(
        self, group: bytes, consumer: bytes, min_idle: int, start: Any, count: int, just_id: bool
    ) -> Any:
        words = ["XAUTOCLAIM", "s", group, consumer, min_idle, text(start), "COUNT", count]
        expected = self.model.xautoclaim(group, consumer, min_idle, start, count, just_id)
        return expected, words + ["JUSTID"] * just_id

    def _read(
        self,
        group: bytes,
        consumer: bytes,
        after: Any,
        count: Any,
        max_count: Any,
        max_size: Any,
        claim: Any,
        no_ack: bool,
    ) -> Any:
        if max_count is not None and count:
            max_count = max(max_count, count)
        self.history |= after is not None
        words = ["XREADGROUP", "GROUP", group, consumer, *option("COUNT", count), *option("CLAIM", claim)]
        words += option("MAXCOUNT", max_count) + option("MAXSIZE", max_size) + ["NOACK"] * no_ack
        words += ["STREAMS", "s", ">" if after is None else text(after)]
        expected = self.model.xreadgroup(
            group,
            consumer,
            after,
            count=count or None,
            max_count=max_count,
            max_size=max_size,
            claim=claim,
            no_ack=no_ack,
        )
        return expected, words

    def _xpending(self, group: bytes, idle: int, consumer: Any) -> Any:
        words = ["XPENDING", "s", group, *(["IDLE", idle] if idle else []), "-", "+", "100"]
        return self.model.xpending(group, idle, consumer), words + ([] if consumer is None else [consumer])

    def _wait(self, milliseconds: int) -> Any:
        self.model.now += max(milliseconds, 0)
        self.client.server.advance(max(milliseconds, 0))
        return None, None


def full_info(client: Any) -> dict[bytes, Any]:
    """What XINFO STREAM FULL returns, as the model does."""
    found = pairs(reply(client, "XINFO", "STREAM", "s", "FULL", "COUNT", "0"))
    wanted = StreamModel().full()
    groups = [pairs(group) for group in found[b"groups"]]
    for group in groups:
        group[b"consumers"] = [pairs(consumer) for consumer in group[b"consumers"]]
    found[b"groups"] = groups
    return {name: found[name] for name in wanted}


def pairs(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


@given(st.lists(OPERATION, max_size=40))
@settings(max_examples=examples(250))
def test_the_server_does_what_the_model_does(operations):
    pair = Pair()
    for operation in operations:
        pair.do(operation)


@given(st.lists(OPERATION, max_size=30))
@settings(max_examples=examples(150))
def test_a_replay_of_what_was_propagated_leads_to_the_same_state(operations):
    pair = Pair()
    for operation in operations:
        # A group that was given a wrong ENTRIESREAD may count beyond the entries there ever were; a replay caps that.
        pair.do((*operation[:3], None) if operation[0] == "setid" else operation)
    replica = make_client(server=FakeServer(stream_node_max_entries=NODE_ENTRIES, stream_node_max_bytes=0))
    replica.trusted = replica.replays = True
    replica.server.advance(pair.model.now - replica.server.keyspace.now)
    for argv in pair.client.server.propagation.take():
        answer = reply(replica, *argv)
        assert not isinstance(answer, hiredis.ReplyError), argv
    assert lasting(replica, with_counts=not pair.history) == lasting(
        pair.client, with_counts=not pair.history
    )
    for name, group in pair.client.db.entries[b"s"].groups.items():
        theirs = replica.db.entries[b"s"].groups[name]
        assert given_back(theirs) == given_back(group)


def lasting(client: Any, *, with_counts: bool) -> Any:
    """What is to survive: not when consumers were seen, nor those that own nothing; history reads are not propagated."""
    found = full_info(client)
    del found[b"radix-tree-keys"]
    for group in found[b"groups"]:
        group[b"consumers"] = [consumer[b"name"] for consumer in group[b"consumers"] if consumer[b"pending"]]
        if not with_counts:
            group[b"pending"] = [entry[:2] for entry in group[b"pending"]]
    return found
