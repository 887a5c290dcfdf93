import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.errors import ReplyError
from rillet.server.config.config import DIRECTIVES, SETTINGS, Config
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
    assert SETTINGS.keys() - attributes == {"config_file", "renamed", "users", "sentinel", "_listeners"}


@pytest.mark.parametrize(
    ("name", "text"),
    [(b"save", b"3600 1 300 100 60 10000"), (b"bind", b"* -::*"), (b"dir", bytes(Path.cwd()))],
)
def test_defaults_are_redis_own(config, name, text):
    assert get(config, name) == text


# Values; scripts/newer/config.script has those of the directives that harm no other test


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("appendonly", "YES", "yes"),
        ("bind", "127.0.0.1 ::1", "127.0.0.1 ::1"),
        ("bind", "", ""),
        ("requirepass", "a b", "a b"),
    ],
)
def test_config_get_returns_the_canonical_form(config, name, value, shown):
    config.set([(name.encode(), value.encode())])
    assert get(config, name.encode()) == shown.encode()


def test_a_cluster_by_tls_is_refused(config):
    assert refused(config, b"tls-cluster", b"yes") == failed(b"tls-cluster", b"there is no cluster")


def test_attributes_are_typed(config):
    config.set(
        [(b"save", b"1 2"), (b"appendonly", b"yes"), (b"requirepass", b"\xff"), (b"maxmemory", b"1kb")]
    )
    assert config.save == ((1, 2),)
    assert config.appendonly is True
    assert config.requirepass == b"\xff"
    assert config.maxmemory == 1024


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


def test_before_88_an_alias_beside_its_directive_is_no_duplicate_and_the_later_wins(config):
    config.compat_version = "8.6"
    config.set([(b"slave-priority", b"1"), (b"replica-priority", b"2")])
    assert config.replica_priority == 2


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


def test_a_file_name_is_no_path(config):
    config.enable_protected_configs = "yes"
    why = b"dbfilename can't be a path, just a filename"
    assert refused(config, b"dbfilename", b"a/b") == failed(b"dbfilename", why)


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
