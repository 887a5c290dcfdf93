"""XREADGROUP: what versions before 8.8 propagate, names of any length, and a history against a model."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.fake_server import reply, run
from support.groups import effects, forget, group_client, stated
from support.invariants import check_invariants

from rillet.commands.spec.versions import compat_with


@pytest.fixture
def client():
    return group_client()


def read(client, *words: str, consumer: str = "c"):
    return reply(client, "XREADGROUP", "GROUP", "g", consumer, *words)


def test_until_8_4_a_new_consumer_that_got_nothing_is_stated_only_with_noack(client):
    client.server.compat = compat_with("8.4")
    run(client, "XGROUP", "SETID", "s", "g", "$")
    forget(client)
    run(client, "XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    run(client, "XREADGROUP", "GROUP", "g", "b", "NOACK", "STREAMS", "s", ">")
    assert effects(client) == ["XGROUP CREATECONSUMER s g b"]


def test_until_8_2_an_entry_is_stated_with_itself_as_the_groups_place(client):
    client.server.compat = compat_with("8.2")
    read(client, "COUNT", "1", "STREAMS", "s", ">")
    assert effects(client)[0] == stated("c", "1-0", count=1, last="1-0")


def test_until_8_6_noack_states_the_new_consumer_first(client):
    client.server.compat = compat_with("8.6")
    read(client, "NOACK", "STREAMS", "s", ">")
    assert effects(client) == ["XGROUP CREATECONSUMER s g c", "XGROUP SETID s g 3-0 ENTRIESREAD 3"]


@pytest.mark.parametrize("length", [1, 300])
def test_names_of_any_length_stand_in_what_is_propagated(length):
    client = group_client(2)
    key, group, consumer = "k" * length, "g" * length, "c" * length
    run(client, "XADD", key, "1-0", "a", "b")
    run(client, "XADD", key, "2-0", "a", "b")
    run(client, "XGROUP", "CREATE", key, group, "0")
    for other in ("", "2"):
        forget(client)
        run(client, "XREADGROUP", "GROUP", group, consumer + other, "COUNT", "1", "STREAMS", key, ">")
        claim, position = effects(client)
        assert claim.startswith(f"XCLAIM {key} {group} {consumer}{other} 0 ")
        assert position.startswith(f"XGROUP SETID {key} {group} ")


@given(
    st.lists(st.sampled_from("cccd-x"), min_size=40, max_size=80),
    st.integers(0, 80),
    st.none() | st.integers(1, 90),
)
@example(["c"] * 5 + ["d"] + ["c"] * 40, 0, 10)
@example(["d"] * 16 + ["c"] * 24, 0, 4)
def test_a_history_is_what_looking_at_each_pending_entry_gives(fates, after, count):
    """``c`` has the entry, ``d`` has claimed it, ``-`` is acknowledged, and ``x`` is deleted but pending."""
    client = group_client()
    run(client, "DEL", "s")
    run(client, "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    for ms, _ in enumerate(fates, 1):
        run(client, "XADD", "s", f"{ms}-0", "f", "v")
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    group = client.db.entries[b"s"].groups[b"g"]
    expected = []
    for ms, fate in enumerate(fates, 1):
        name = b"%d-0" % ms
        if fate == "d":
            run(client, "XCLAIM", "s", "g", "d", "0", name)
        elif fate == "-":
            run(client, "XACK", "s", "g", name)
        elif fate == "x":
            run(client, "XDEL", "s", name)
        if fate in "cx" and ms > after:
            fields = b"*-1\r\n" if fate == "x" else b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
            expected.append(b"*2\r\n$%d\r\n%b\r\n%b" % (len(name), name, fields))
    expected = expected[:count]
    words = [] if count is None else ["COUNT", count]
    # Twice: the first read has changed them.
    for _ in range(2):
        reply = run(client, "XREADGROUP", "GROUP", "g", "c", *words, "STREAMS", "s", after)
        assert reply == b"*1\r\n*2\r\n$1\r\ns\r\n*%d\r\n%b" % (len(expected), b"".join(expected))
        check_invariants(group)
