"""XREAD and XREADGROUP: parsing, delivery, history, propagation, and when they block."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.fake_server import reply, run
from support.groups import effects, forget, group_client, stated
from support.invariants import check_invariants

from rillet.commands.spec.key_finders import keys_of_streams
from rillet.commands.spec.versions import compat_with

NOW = 1_700_000_000_000
MAX = "18446744073709551615-18446744073709551615"
ENTRY = {n: [b"%d-0" % n, [b"a", b"b"]] for n in range(1, 10)}
NOTHING = b"*-1\r\n"


@pytest.fixture
def client():
    return group_client()


def group_of(client):
    return client.db.entries[b"s"].groups[b"g"]


def read(client, *words: str, consumer: str = "c"):
    return reply(client, "XREADGROUP", "GROUP", "g", consumer, *words)


# Parsing


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("XREAD STREAMS s 0", [2]),
        ("XREAD COUNT 1 BLOCK 0 STREAMS a b 0 0", [6, 7]),
        ("XREADGROUP GROUP STREAMS STREAMS NOACK streams STREAMS s 0 >", [6, 7]),
        ("XREAD STREAMS a b 0", []),
        ("XREAD WHAT STREAMS a 0", []),
        ("XREAD COUNT STREAMS a 0", []),
        ("XREADGROUP NOPE STREAMS c STREAMS a 0", []),
        ("XREAD COUNT 1 BLOCK 0", []),
        ("XREAD NOPE 1 BLOCK 0", []),
    ],
)
def test_keys_are_found_by_walking_the_options(words, keys):
    assert keys_of_streams(words.encode().split()) == keys


# Delivery


def test_the_greatest_id_reads_like_the_new_entries_sign(client):
    assert read(client, "STREAMS", "s", MAX) == [[b"s", [ENTRY[1], ENTRY[2], ENTRY[3]]]]


def test_setting_the_group_back_delivers_again_with_a_fresh_counter(client):
    read(client, "STREAMS", "s", ">")
    read(client, "STREAMS", "s", "0")
    run(client, "XGROUP", "SETID", "s", "g", "1-0")
    client.server.advance(10)
    read(client, "STREAMS", "s", ">", consumer="d")
    assert [(each.consumer.name, each.ms, each.count) for each in group_of(client)] == [
        (b"c", NOW, 2),
        (b"d", NOW + 10, 1),
        (b"d", NOW + 10, 1),
    ]


def test_seen_time_is_the_last_attempt_and_active_time_the_last_success(client):
    read(client, "STREAMS", "s", ">")
    client.server.advance(10)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    client.server.advance(10)
    read(client, "STREAMS", "s", "0")
    consumer = group_of(client).consumers[b"c"]
    assert (consumer.seen_ms, consumer.active_ms) == (NOW + 20, NOW)


def test_a_noack_read_does_not_make_the_consumer_active(client):
    read(client, "NOACK", "STREAMS", "s", ">")
    assert group_of(client).consumers[b"c"].active_ms == -1


# History


def test_empty_history_is_answered_at_once_even_with_block(client):
    assert read(client, "BLOCK", "0", "STREAMS", "s", "0") == [[b"s", []]]
    assert client.server.blocking.waiting == []


def test_history_counts_as_a_delivery_that_is_not_propagated(client):
    read(client, "STREAMS", "s", ">")
    client.server.advance(10)
    forget(client)
    read(client, "COUNT", "2", "NOACK", "STREAMS", "s", "0")
    assert [(each.ms, each.count) for each in group_of(client)] == [(NOW + 10, 2), (NOW + 10, 2), (NOW, 1)]
    assert effects(client) == []


@pytest.mark.parametrize(("resp", "null"), [(2, b"*-1\r\n"), (3, b"_\r\n")])
def test_history_answers_null_for_a_message_that_is_gone_and_leaves_it_alone(resp, null):
    client = group_client(resp=resp)
    read(client, "STREAMS", "s", ">")
    run(client, "XDEL", "s", "2-0")
    client.server.advance(10)
    answer = run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "0")
    assert b"*2\r\n$3\r\n2-0\r\n" + null in answer
    assert [(each.ms, each.count) for each in group_of(client)] == [(NOW + 10, 2), (NOW, 1), (NOW + 10, 2)]


# Propagation


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


def test_what_is_stated_leads_another_server_to_the_same_state(client):
    other = group_client()
    read(client, "COUNT", "2", "STREAMS", "s", ">")
    for argv in client.server.propagation.take():
        run(other, *argv)
    assert [(each.number, each.consumer.name, each.ms, each.count) for each in group_of(other)] == [
        (each.number, each.consumer.name, each.ms, each.count) for each in group_of(client)
    ]
    assert (group_of(other).last_id, group_of(other).entries_read) == (2 << 64, 2)


# Blocking


def test_xread_blocks_on_all_keys_when_nothing_is_new(client):
    assert run(client, "XREAD", "BLOCK", "250", "STREAMS", "s", "nokey", "3-0", "0") is None
    [(waiter, keys, timeout, argv, on_missing)] = client.server.blocking.waiting
    assert (waiter, keys, timeout, on_missing) == (client, [b"s", b"nokey"], 250, False)
    assert argv == b"XREAD BLOCK 250 STREAMS s nokey 3-0 0".split()


def test_the_dollar_is_remembered_as_the_id_it_was(client):
    run(client, "XTRIM", "s", "MAXLEN", "0")
    assert run(client, "XREAD", "BLOCK", "0", "STREAMS", "s", "nokey", "s", "$", "$", "+") is None
    argv = client.server.blocking.waiting[0][3]
    assert argv == b"XREAD BLOCK 0 STREAMS s nokey s 3-0 0-0 +".split()
    run(client, "XADD", "s", "4-0", "a", "b")
    assert reply(client, *argv) == [[b"s", [ENTRY[4]]], [b"s", [ENTRY[4]]]]


def test_xread_with_data_does_not_block(client):
    assert reply(client, "XREAD", "BLOCK", "0", "STREAMS", "s", "2") == [[b"s", [ENTRY[3]]]]
    assert client.server.blocking.waiting == []


def test_xreadgroup_blocks_and_cares_for_the_key_going_away(client):
    run(client, "XGROUP", "SETID", "s", "g", "$")
    assert run(client, "XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">") is None
    [(_, keys, timeout, argv, on_missing)] = client.server.blocking.waiting
    assert (keys, timeout, on_missing) == ([b"s"], 0, True)
    assert list(group_of(client).consumers) == [b"c"]
    run(client, "XADD", "s", "4-0", "a", "b")
    assert reply(client, *argv) == [[b"s", [ENTRY[4]]]]
    client.db.remove(b"s")
    assert run(client, *argv) == (
        b"-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n"
    )


def test_where_blocking_is_not_allowed_it_is_a_timeout_at_once(client):
    client.in_exec = True
    run(client, "XGROUP", "SETID", "s", "g", "$")
    assert run(client, "XREAD", "BLOCK", "0", "STREAMS", "s", "$") == NOTHING
    assert run(client, "XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">") == NOTHING
    assert list(group_of(client).consumers) == [b"c"]
    assert client.server.blocking.waiting == []


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
