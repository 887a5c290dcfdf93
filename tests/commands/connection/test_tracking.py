import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wired_server import WiredServer, read, talk, write

from rillet.commands.runtime.state import State

MODE_SWITCH = (
    b"-ERR You can't switch %b before disabling tracking for this client, and then re-enabling it with a different "
    b"mode.\r\n"
)


@pytest.fixture
def server():
    return WiredServer()


def track(client, *options):
    assert talk(client, "CLIENT", "TRACKING", "ON", *options) == b"+OK\r\n"


def invalid(*keys, head=b">2\r\n$10\r\ninvalidate\r\n"):
    return head + b"*%d\r\n" % len(keys) + b"".join(b"$%d\r\n%b\r\n" % (len(key), key) for key in keys)


NULL = b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def test_a_change_is_sent_once_and_forgotten(server):
    client, writer = server.connect(3), server.connect()
    track(client)
    read(client, b"k")
    write(writer, b"other")
    assert client.take() == b""
    write(writer, b"k")
    assert client.take() == invalid(b"k")
    write(writer, b"k")
    assert client.take() == b""


def test_own_changes_are_sent_after_the_reply(server):
    client = server.connect(3)
    track(client)
    read(client, b"a", b"b")
    assert write(client, b"b", b"a") == invalid(b"b") + invalid(b"a")
    assert client.received == b""


def test_own_changes_come_behind_messages_of_the_same_command(server):
    client = server.connect(3)
    track(client)
    talk(client, "SUBSCRIBE", "__keyevent@0__:set")
    read(client, b"a")
    server.current_client = client
    client.db.modified(b"a")
    server.pubsub.publish(b"__keyevent@0__:set", b"a")
    server.tracking.finish(client, [b"SET"])
    assert [message[4:].split(b"\r\n")[1] for message in client.deferred] == [b"message", b"invalidate"]


def test_noloop_spares_the_writer_but_the_key_is_forgotten(server):
    client, writer = server.connect(3), server.connect()
    track(client, "NOLOOP")
    read(client, b"k")
    assert write(client, b"k") == b""
    write(writer, b"k")
    assert client.take() == b""
    read(client, b"k")
    write(writer, b"k")
    assert client.take() == invalid(b"k")


def test_resp2_without_redirection_gets_nothing(server):
    client, writer = server.connect(2), server.connect()
    track(client)
    read(client, b"k")
    write(writer, b"k")
    assert client.take() == b""
    assert server.tracking.total_keys == 0


def test_a_flush_is_sent_to_all_tracking_clients(server):
    reader, listener, noloop = server.connect(3), server.connect(3), server.connect(3)
    track(reader)
    track(listener, "BCAST")
    track(noloop, "NOLOOP")
    read(reader, b"k")
    server.keyspace.on_flushed()
    assert [client.take() for client in (reader, listener, noloop)] == [NULL, NULL, NULL]
    assert server.tracking.total_keys == 0


def test_the_keyspace_hooks_are_unset_while_no_client_tracks(server):
    client, writer = server.connect(3), server.connect()
    assert (server.keyspace.on_modified, server.keyspace.on_flushed) == (None, None)
    track(client)
    assert None not in (server.keyspace.on_modified, server.keyspace.on_flushed)
    assert client.state is not State.PLAIN
    read(client, b"k")
    talk(client, "CLIENT", "TRACKING", "OFF")
    assert client.state is State.PLAIN
    write(writer, b"k")
    assert server.keyspace.on_modified is None
    assert client.take() == b""


def test_what_was_read_before_off_and_on_still_counts(server):
    client, writer = server.connect(3), server.connect()
    track(client)
    read(client, b"k")
    talk(client, "CLIENT", "TRACKING", "OFF")
    track(client)
    write(writer, b"k")
    assert client.take() == invalid(b"k")


def test_a_client_that_goes_away_is_forgotten(server):
    client, writer = server.connect(3), server.connect()
    track(client)
    read(client, b"k")
    server.disconnect(client)
    assert (server.tracking.total_keys, server.keyspace.on_modified) == (0, None)
    write(writer, b"k")
    assert client.take() == b""


def test_a_change_before_switching_off_in_the_same_transaction_is_sent(server):
    client, other = server.connect(3), server.connect(3)
    track(client)
    track(other)
    read(client, b"k")
    server.current_client = client
    client.db.modified(b"k")
    assert talk(client, "CLIENT", "TRACKING", "OFF") == b"+OK\r\n" + invalid(b"k")
    assert write(other, b"z") == b""
    assert client.take() == b""


def test_a_flush_ends_what_was_noted_for_clients_that_track_no_more(server):
    client = server.connect(3)
    track(client)
    read(client, b"k")
    talk(client, "CLIENT", "TRACKING", "OFF")
    server.tracking.flush()
    assert server.keyspace.on_modified is None


@pytest.mark.parametrize(
    ("words", "used_up"), [((b"CLIENT", b"id"), False), ((b"CLIENT", b"NOPE"), True), ((b"PING",), True)]
)
def test_only_known_client_commands_leave_what_caching_said(server, words, used_up):
    client = server.connect(3)
    track(client, "OPTIN")
    talk(client, "CLIENT", "CACHING", "YES")
    server.tracking.finish(client, list(words))
    assert client.tracking.caching is not used_up


def test_optout_remembers_unless_caching_no(server):
    client, writer = server.connect(3), server.connect()
    track(client, "OPTOUT")
    talk(client, "CLIENT", "CACHING", "NO")
    read(client, b"a")
    read(client, b"b")
    write(writer, b"a", b"b")
    assert client.take() == invalid(b"b")


def test_broadcasts_are_collected_per_prefix_and_sorted(server):
    client, writer = server.connect(3), server.connect()
    track(client, "BCAST", "PREFIX", "b", "PREFIX", "a")
    write(writer, b"a2", b"b1", b"a1", b"c", b"a2")
    assert client.take() == invalid(b"a1", b"a2") + invalid(b"b1")
    assert write(client, b"c", b"b") == invalid(b"b")
    assert server.tracking.total_prefixes == 2


def test_broadcasting_without_prefix_means_every_key_except_ones_own_with_noloop(server):
    client, writer = server.connect(3), server.connect()
    track(client, "BCAST", "NOLOOP")
    assert write(client, b"a", b"b") == b""
    write(writer, b"a", b"b")
    assert client.take() == invalid(b"a", b"b")


def test_two_clients_may_share_a_prefix(server):
    client, other, writer = server.connect(3), server.connect(3), server.connect()
    track(client, "BCAST", "PREFIX", "a")
    track(other, "BCAST", "PREFIX", "a", "NOLOOP")
    assert write(other, b"a") == b""
    assert client.take() == invalid(b"a")
    server.disconnect(client)
    write(writer, b"a")
    assert other.take() == invalid(b"a")


def test_broadcasting_clients_do_not_remember_reads(server):
    client = server.connect(3)
    track(client, "BCAST", "PREFIX", "x")
    read(client, b"k")
    assert server.tracking.total_keys == 0


def test_prefixes_add_up_and_end_with_tracking(server):
    client = server.connect(3)
    track(client, "BCAST", "PREFIX", "a")
    track(client, "BCAST", "PREFIX", "b")
    assert talk(client, "CLIENT", "TRACKINGINFO").endswith(b"$8\r\nprefixes\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n")
    talk(client, "CLIENT", "TRACKING", "OFF")
    assert server.tracking.total_prefixes == 0


def test_a_redirection_to_a_resp2_subscriber_looks_like_a_message(server):
    client, target, writer = server.connect(2), server.connect(2), server.connect()
    track(client, "REDIRECT", target.id)
    head = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
    read(client, b"k")
    write(writer, b"k")
    assert target.take() == b""
    talk(target, "SUBSCRIBE", "whatever")
    read(client, b"k")
    write(writer, b"k")
    assert target.take() == invalid(b"k", head=head)
    server.tracking.flush()
    assert target.take() == head + b"$-1\r\n"
    assert client.take() == b""


def test_a_redirection_to_a_resp3_client_is_a_push(server):
    client, target = server.connect(2), server.connect(3)
    track(client, "REDIRECT", target.id)
    read(client, b"k")
    assert write(target, b"k") == invalid(b"k")


def test_a_broken_redirection_is_sent_to_resp3(server):
    client, target, writer = server.connect(3), server.connect(3), server.connect()
    track(client, "REDIRECT", target.id)
    read(client, b"k")
    server.disconnect(target)
    write(writer, b"k")
    assert client.take() == b">2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n" % target.id
    assert b"broken_redirect" in talk(client, "CLIENT", "TRACKINGINFO")
    assert talk(client, "CLIENT", "GETREDIR") == b":%d\r\n" % target.id
    track(client)
    assert b"broken_redirect" not in talk(client, "CLIENT", "TRACKINGINFO")


def test_the_table_is_kept_within_its_limit(server):
    client = server.connect(3)
    server.config.tracking_table_max_keys = 2
    track(client)
    assert read(client, b"a", b"b") == b""
    assert read(client, b"c") == invalid(b"a")
    assert (server.tracking.total_keys, server.tracking.total_items) == (2, 2)


def test_a_client_redirects_to_one_other_client(server):
    client = server.connect(3)
    assert talk(client, "CLIENT", "TRACKING", "ON", "REDIRECT", "1", "REDIRECT", "1") == (
        b"-ERR A client can only redirect to a single other client\r\n"
    )
    assert client.tracking is None


def test_modes_cannot_be_switched_while_tracking(server):
    client = server.connect(3)
    track(client, "OPTIN")
    assert talk(client, "CLIENT", "TRACKING", "ON", "OPTOUT") == MODE_SWITCH % b"OPTIN/OPTOUT mode"
    assert talk(client, "CLIENT", "TRACKING", "ON", "BCAST") == MODE_SWITCH % b"BCAST mode on/off"
    talk(client, "CLIENT", "TRACKING", "OFF", "BCAST")
    track(client, "BCAST", "PREFIX", "a")
    assert talk(client, "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ab") == (
        b"-ERR Prefix 'ab' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.\r\n"
    )


def test_caching_wants_its_mode(server):
    client = server.connect(3)
    assert talk(client, "CLIENT", "CACHING", "YES").startswith(b"-ERR CLIENT CACHING can be called only when")
    track(client, "OPTIN")
    assert talk(client, "CLIENT", "CACHING", "NO") == (
        b"-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n"
    )
    assert talk(client, "CLIENT", "CACHING", "x") == b"-ERR syntax error\r\n"
    talk(client, "CLIENT", "TRACKING", "OFF")
    track(client, "OPTOUT")
    assert talk(client, "CLIENT", "CACHING", "YES") == (
        b"-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.\r\n"
    )


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ((), [b"on"]),
        (("BCAST", "NOLOOP"), [b"on", b"bcast", b"noloop"]),
        (("OPTIN",), [b"on", b"optin", b"caching-yes"]),
        (("OPTOUT", "NOLOOP"), [b"on", b"optout", b"caching-no", b"noloop"]),
    ],
)
def test_trackinginfo_names_the_modes(server, options, flags):
    client = server.connect(3)
    assert talk(client, "CLIENT", "TRACKINGINFO") == (
        b"%3\r\n$5\r\nflags\r\n~1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n"
    )
    assert talk(client, "CLIENT", "GETREDIR") == b":-1\r\n"
    track(client, *options)
    talk(client, "CLIENT", "CACHING", "YES" if "OPTIN" in options else "NO")
    text = b"".join(b"$%d\r\n%b\r\n" % (len(flag), flag) for flag in flags)
    start = b"%%3\r\n$5\r\nflags\r\n~%d\r\n%b$8\r\nredirect\r\n:0\r\n" % (len(flags), text)
    assert talk(client, "CLIENT", "TRACKINGINFO").startswith(start)
    assert talk(client, "CLIENT", "GETREDIR") == b":0\r\n"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "on", "off", "flush"]),
        st.integers(0, 2),
        st.sampled_from([b"a", b"b"]),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(100), deadline=None)
def test_every_client_that_read_a_key_gets_its_next_change(steps):
    server = WiredServer()
    clients = [server.connect(3) for _ in range(3)]
    tracking = [False] * 3
    notes: set[tuple[int, bytes]] = set()
    for action, who, key in steps:
        client = clients[who]
        expected = [b"", b"", b""]
        if action == "read":
            assert read(client, key) == b""
            if tracking[who]:
                notes.add((who, key))
        elif action == "write":
            expected = [invalid(key) if tracking[at] and (at, key) in notes else b"" for at in range(3)]
            notes = {note for note in notes if note[1] != key}
            client.received += write(client, key)
        elif action == "flush":
            expected = [NULL if on else b"" for on in tracking]
            server.tracking.flush()
            notes.clear()
        else:
            talk(client, "CLIENT", "TRACKING", action)
            tracking[who] = action == "on"
        assert [each.take() for each in clients] == expected
        assert (server.keyspace.on_modified is None) == (not any(tracking) and not server.tracking.total_keys)


def test_broadcasts_go_by_the_rights_at_the_time_of_the_change(server):
    client, writer = server.connect(3), server.connect()
    talk(writer, "ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*")
    talk(client, "AUTH", "u", "x")
    track(client, "BCAST")
    talk(writer, "MULTI")
    talk(writer, "SET", "k", "1")
    talk(writer, "ACL", "SETUSER", "u", "resetkeys", "~a*")
    talk(writer, "SET", "k", "2")
    talk(writer, "SET", "a", "1")
    talk(writer, "EXEC")
    assert client.take() == invalid(b"k") + invalid(b"a")
