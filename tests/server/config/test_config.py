import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.errors import ReplyError
from rillet.server.config.config import DIRECTIVES, SETTINGS, Config
from rillet.server.config.kinds import OutputLimit
from rillet.storage.keyspace import notifications as events


@pytest.fixture
def config():
    return Config()


def get(config, name):
    return config.get([name])[name]


def refused(config, *pairs, **keywords):
    before = config.get([b"*"])
    with pytest.raises(ReplyError) as caught:
        config.set([(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)], **keywords)
    assert config.get([b"*"]) == before
    return caught.value.text


def failed(name, why):
    return b"ERR CONFIG SET failed (possibly related to argument '%b') - %b" % (name, why)


# Reading


def test_every_directive_accepts_the_default_that_it_reports(config):
    for directive in DIRECTIVES.values():
        text = config.text(directive)
        assert directive.kind.parse(directive.words(text), getattr(config, directive.attribute)) == getattr(
            config, directive.attribute
        )


def test_every_mutable_directive_can_be_set_to_its_present_value(config):
    config.enable_protected_configs = "yes"
    called = []
    for name in DIRECTIVES.keys() - {b"io-threads-do-reads"}:
        config.on_change(name.decode(), lambda: called.append(1))
        if DIRECTIVES[name].mutable:
            config.set([(name, get(config, name))])
    assert not called


def test_every_field_is_a_directive_but_five():
    attributes = {directive.attribute for directive in DIRECTIVES.values()}
    assert SETTINGS.keys() - attributes == {
        "config_file",
        "renamed",
        "users",
        "sentinel",
        "_listeners",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"save", b"3600 1 300 100 60 10000"),
        (b"bind", b"* -::*"),
        (b"maxmemory", b"0"),
        (b"proto-max-bulk-len", b"536870912"),
        (
            b"client-output-buffer-limit",
            b"normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
        (b"latency-tracking-info-percentiles", b"50 99 99.9"),
        (b"oom-score-adj-values", b"0 200 800"),
        (b"unixsocketperm", b"0"),
        (b"appendonly", b"no"),
        (b"stream-node-max-bytes", b"4096"),
        (b"stream-node-max-entries", b"100"),
        (b"stream-idmp-duration", b"100"),
        (b"notify-keyspace-events", b""),
        (b"replicaof", b""),
        (b"slaveof", b""),
        (b"list-max-ziplist-size", b"-2"),
        (b"dir", bytes(Path.cwd())),
    ],
)
def test_defaults_are_redis_own(config, name, text):
    assert get(config, name) == text


def test_get_takes_names_and_globs_without_regard_to_case(config):
    assert config.get([b"TIMEOUT"]) == {b"TIMEOUT": b"0"}
    assert config.get([b"TIMEOU*"]) == {b"timeout": b"0"}
    assert config.get([b"timeout", b"t*out", b"TIMEOUT"]) == {
        b"timeout": b"0",
        b"tls-session-cache-timeout": b"300",
    }
    assert config.get([b"slave-p*", b"replica-priority"]) == {
        b"slave-priority": b"100",
        b"replica-priority": b"100",
    }


def test_get_of_the_unknown_is_empty(config):
    assert config.get([b"nothing", b"time\\out", b"zz*"]) == {}


def test_hidden_directives_need_their_exact_name(config):
    assert config.get([b"key-load-*"]) == {}
    assert config.get([b"KEY-LOAD-DELAY"]) == {b"KEY-LOAD-DELAY": b"0"}
    assert b"key-load-delay" not in config.get([b"*"])


# Values

ACCEPTED = [
    ("maxmemory", "1k", "1000"),
    ("maxmemory", "1KB", "1024"),
    ("maxmemory", "1m", "1000000"),
    ("maxmemory", "1Mb", "1048576"),
    ("maxmemory", "1g", "1000000000"),
    ("maxmemory", "1gb", "1073741824"),
    ("maxmemory", "10b", "10"),
    ("maxmemory", "", "0"),
    ("maxmemory", "18446744073709551615", "18446744073709551615"),
    ("maxmemory-clients", "5%", "5%"),
    ("maxmemory-clients", "0%", "0"),
    ("maxmemory-clients", "1mb", "1048576"),
    ("stream-node-max-entries", "9223372036854775807", "9223372036854775807"),
    ("save", "900 1", "900 1"),
    ("save", "900 1 300 0", "900 1 300 0"),
    ("save", "", ""),
    ("appendfsync", "ALWAYS", "always"),
    ("appendonly", "YES", "yes"),
    ("hz", "0", "1"),
    ("hz", "1000", "500"),
    ("repl-backlog-size", "1", "16384"),
    ("client-query-buffer-limit", "1mb", "1048576"),
    ("latency-tracking-info-percentiles", "", ""),
    ("latency-tracking-info-percentiles", "100.0 50.123456789", "100 50.123457"),
    ("oom-score-adj-values", "3 2 1", "3 2 1"),
    ("bind", "127.0.0.1 ::1", "127.0.0.1 ::1"),
    ("bind", "", ""),
    ("slowlog-log-slower-than", "-1", "-1"),
    ("shutdown-on-sigterm", "force nosave", "nosave force"),
    ("proc-title-template", "{title} {port}", "{title} {port}"),
    ("requirepass", "a b", "a b"),
    ("notify-keyspace-events", "KEA", "AKE"),
    ("notify-keyspace-events", "KEg$lshzxetdamn", "AKEm"),
    ("notify-keyspace-events", "KEg$lshzxet", "g$lshzxetKE"),
    ("notify-keyspace-events", "KElg", "glKE"),
    ("notify-keyspace-events", "xKd", "xdK"),
    ("notify-keyspace-events", "mEK", "KEm"),
    ("notify-keyspace-events", "n", "n"),
    ("notify-keyspace-events", "Ag", "A"),
]


@pytest.mark.parametrize(("name", "value", "shown"), ACCEPTED)
def test_config_get_returns_the_canonical_form(config, name, value, shown):
    config.set([(name.encode(), value.encode())])
    assert get(config, name.encode()) == shown.encode()


INTEGER = "argument couldn't be parsed into an integer"
MEMORY = "argument must be a memory value"
REFUSED = [
    *(("timeout", bad, INTEGER) for bad in (" 5", "5 ", "+5", "05", "-0", "", "0x5", "1e3", "9" * 20, "5\n")),
    ("timeout", "-1", "argument must be between 0 and 2147483647 inclusive"),
    ("stream-node-max-entries", "9223372036854775808", INTEGER),
    ("stream-node-max-entries", "-1", "argument must be between 0 and 9223372036854775807 inclusive"),
    ("stream-idmp-maxsize", "10001", "argument must be between 1 and 10000 inclusive"),
    ("stream-idmp-duration", "0", "argument must be between 1 and 86400 inclusive"),
    ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
    *(("maxmemory", bad, MEMORY) for bad in ("1t", "-1", " 5", "5 ", "1.5mb", "0x10", "+5")),
    ("proto-max-bulk-len", "1000", "argument must be between 1048576 and 9223372036854775807 inclusive"),
    ("maxmemory-clients", "101%", "percentage argument must be less or equal to 100"),
    ("maxmemory-clients", "-1", "argument must be a memory or percent value"),
    ("appendonly", "maybe", "argument must be 'yes' or 'no'"),
    ("appendfsync", "x", "argument(s) must be one of the following: everysec, always, no"),
    *(
        ("save", bad, "Invalid save parameters")
        for bad in ("900", "0 1", "-1 1", "a b", "9  1", " 9 1 ", "9 -1")
    ),
    ("notify-keyspace-events", "q", "Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'."),
    ("client-output-buffer-limit", "a", "Wrong number of arguments in buffer limit configuration."),
    (
        "client-output-buffer-limit",
        "x 0 0 0",
        "Invalid client class specified in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit",
        "normal 0 0 -1",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    ("latency-tracking-info-percentiles", "a", "Invalid latency-tracking-info-percentiles parameters"),
    ("latency-tracking-info-percentiles", "nan", "Invalid latency-tracking-info-percentiles parameters"),
    (
        "latency-tracking-info-percentiles",
        "101",
        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
    ),
    ("oom-score-adj-values", "1 2", "wrong number of arguments"),
    (
        "oom-score-adj-values",
        "-2001 0 0",
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ),
    ("proc-title-template", "{bad", "template format is invalid or contains unknown variables"),
    ("proc-title-template", "{x}", "template format is invalid or contains unknown variables"),
    ("bind", " ".join("abcdefghijklmnopq"), "Too many bind addresses specified."),
    ("tls-cluster", "yes", "there is no cluster"),
]


@pytest.mark.parametrize(("name", "value", "why"), REFUSED)
def test_a_bad_value_is_refused_with_redis_words(config, name, value, why):
    assert refused(config, name.encode(), value.encode()) == failed(name.encode(), why.encode())


def test_output_limits_change_class_by_class(config):
    config.set([(b"client-output-buffer-limit", b"REPLICA 1mb 2k 3")])
    assert config.client_output_buffer_limit.replica == OutputLimit(1 << 20, 2000, 3)
    assert config.client_output_buffer_limit.pubsub == OutputLimit(32 << 20, 8 << 20, 60)


def test_attributes_are_typed(config):
    config.set(
        [(b"save", b"1 2"), (b"appendonly", b"yes"), (b"requirepass", b"\xff"), (b"maxmemory", b"1kb")]
    )
    assert config.save == ((1, 2),)
    assert config.appendonly is True
    assert config.requirepass == b"\xff"
    assert config.maxmemory == 1024


def test_the_new_key_class_stays_on_although_config_get_omits_it(config):
    config.set([(b"notify-keyspace-events", b"AKn")])
    assert "n" in config.notify_keyspace_events
    assert "t" in config.notify_keyspace_events
    assert get(config, b"notify-keyspace-events") == b"AK"


def test_events_become_bits_once_a_channel_class_is_on(config):
    config.set([(b"notify-keyspace-events", b"tn")])
    assert config.notify_mask == 0
    config.set([(b"notify-keyspace-events", b"Ktn")])
    assert config.notify_mask == events.KEYSPACE | events.STREAM | events.NEW
    config.set([(b"notify-keyspace-events", b"AKEmnoc")])
    assert config.notify_mask == (1 << 17) - 1
    config.set([(b"notify-keyspace-events", b"AKE")])
    rest = events.MISS | events.NEW | events.OVERWRITTEN | events.TYPE_CHANGED
    assert config.notify_mask == (1 << 17) - 1 - rest


# Setting several


def test_set_is_all_or_nothing(config):
    assert refused(config, b"timeout", b"7", b"hz", b"a") == failed(b"hz", INTEGER.encode())


def test_names_are_checked_before_values_and_in_order(config):
    unknown = b"ERR Unknown option or number of arguments for CONFIG SET - '%b'"
    immutable = b"can't set immutable config"
    assert refused(config, b"FoO", b"1") == unknown % b"FoO"
    assert refused(config, b"timeout", b"a", b"foo", b"b") == unknown % b"foo"
    assert refused(config, b"DATABASES", b"3", b"foo", b"no") == failed(b"DATABASES", immutable)
    assert refused(config, b"timeout", b"a", b"databases", b"b") == failed(b"databases", immutable)
    assert refused(config, b"timeout", b"a", b"TIMEOUT", b"b") == failed(b"TIMEOUT", b"duplicate parameter")
    assert refused(config, b"TIMEOUT", b"a") == failed(b"timeout", INTEGER.encode())
    assert refused(config, b"slave-priority", b"a") == failed(b"slave-priority", INTEGER.encode())


def test_before_88_an_alias_beside_its_directive_is_no_duplicate_and_the_later_wins(config):
    config.compat_version = "8.6"
    config.set([(b"slave-priority", b"1"), (b"replica-priority", b"2")])
    assert config.replica_priority == 2


def test_an_immutable_or_protected_directive_is_refused_even_its_present_value(config):
    for name in (b"daemonize", b"databases", b"enable-debug-command", b"unixsocket"):
        assert refused(config, name, get(config, name)) == failed(name, b"can't set immutable config")
    assert refused(config, b"dbfilename", b"dump.rdb") == failed(b"dbfilename", b"can't set protected config")


def test_protected_directives_need_permission(config, tmp_path):
    path = os.fsencode(tmp_path)
    assert refused(config, b"dir", path) == failed(b"dir", b"can't set protected config")
    config.enable_protected_configs = "local"
    assert refused(config, b"dir", path, local=False) == failed(b"dir", b"can't set protected config")
    config.set([(b"dir", path)])
    assert config.dir == str(tmp_path)
    config.enable_protected_configs = "yes"
    config.set([(b"dbfilename", b"other.rdb")], local=False)
    assert config.dbfilename == "other.rdb"


def test_a_folder_is_taken_from_the_present_one_and_must_exist(config, tmp_path):
    config.enable_protected_configs = "yes"
    config.dir = str(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "file").touch()
    assert refused(config, b"dir", b"nowhere") == failed(b"dir", b"No such file or directory")
    assert refused(config, b"dir", b"file") == failed(b"dir", b"Not a directory")
    assert refused(config, b"dir", b"") == failed(b"dir", b"No such file or directory")
    config.set([(b"dir", b"inner")])
    assert config.dir == str(tmp_path / "inner")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("dbfilename", "a/b", "dbfilename can't be a path, just a filename")],
)
def test_a_file_name_is_no_path(config, name, value, why):
    config.enable_protected_configs = "yes"
    assert refused(config, name.encode(), value.encode()) == failed(name.encode(), why.encode())


# Listeners


def test_a_listener_sees_the_new_value_and_is_called_once_per_change(config):
    seen = []
    config.on_change("timeout", lambda: seen.append(config.timeout))
    config.on_change("lua-time-limit", lambda: seen.append(config.busy_reply_threshold))
    config.set([(b"timeout", b"5"), (b"hz", b"20")])
    config.set([(b"timeout", b"5")])
    config.set([(b"busy-reply-threshold", b"9")])
    assert seen == [5, 9]


def test_a_listener_that_refuses_undoes_everything(config):
    seen = []

    def refuse():
        if config.maxclients > 10000:
            raise ValueError("too many")

    config.on_change("timeout", lambda: seen.append(config.timeout))
    config.on_change("maxclients", refuse)
    assert refused(config, b"timeout", b"5", b"maxclients", b"20000", b"hz", b"3") == failed(
        b"maxclients", b"too many"
    )
    assert seen == [5, 0]


def test_a_listener_for_an_unknown_name_is_a_mistake(config):
    with pytest.raises(KeyError):
        config.on_change("nothing", list)


def test_two_configs_share_nothing():
    first, second = Config(), Config()
    first.on_change("hz", pytest.fail)
    second.set([(b"hz", b"20")])
    assert first.hz == 10


@pytest.mark.parametrize(
    ("access", "local", "allowed"),
    [("no", True, False), ("local", True, True), ("local", False, False), ("yes", False, True)],
)
def test_access_words_decide_which_clients_are_allowed(access, local, allowed):
    assert Config.allows(access, local=local) is allowed


@given(
    st.sampled_from(sorted(name for name, directive in DIRECTIVES.items() if directive.mutable)),
    st.binary(max_size=12) | st.from_regex(rb"-?[0-9]{1,6}([kmg]b?| [0-9])?"),
)
def test_an_accepted_value_is_reported_in_an_accepted_form(name, value):
    config = Config(enable_protected_configs="yes")
    with contextlib.suppress(ReplyError):
        config.set([(name, value)])
    attribute = DIRECTIVES[name].attribute
    before = getattr(config, attribute)
    config.set([(name, get(config, name))])
    if name not in {b"latency-tracking-info-percentiles", b"notify-keyspace-events"}:
        assert getattr(config, attribute) == before
