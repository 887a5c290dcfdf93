"""Whatever text clients let the server store, the files that it writes say exactly that, and nothing else."""

import copy
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run

from rillet.commands.acl import file as acl_file
from rillet.commands.runtime.users import RuleError, User, Users, is_username, joined
from rillet.protocol.errors import ReplyError
from rillet.server.config.config import DIRECTIVES, SETTINGS, Config
from rillet.server.config.file import _Loader, _rewritten
from rillet.server.log import Log

EVIL = [
    b"127.0.0.1\nenable-debug-command yes",
    b"127.0.0.1 1\nenable-debug-command yes\n#",
    b"a\ruser evil on nopass ~* +@all",
    b"a\nuser evil on nopass ~* +@all",
    b'"', b"'", b"\\", b'a"b', b"a'b", b"#a", b"a#b", b"\xff\xfe", b"\x00", b"\x0b", b"\x0c", b"\xc2\x85", b"",
]  # fmt: skip
WORDS = st.sampled_from(EVIL) | st.binary(max_size=12) | st.text(max_size=8).map(str.encode)
MUTABLE = sorted(name for name, directive in DIRECTIVES.items() if directive.mutable and directive.primary)
OLD = st.sampled_from(
    [b"", b"port 1\n# a comment\nrequirepass x\nmasteruser y\nbind 127.0.0.1\nreplicaof a 1\n"]
)


def values(config):
    found = {name: getattr(config, name) for name, each in SETTINGS.items() if each.metadata is not None}
    return found | {"users": config.users}


def written_and_read(config, old=b""):
    found, text = Config(), _rewritten(config, old)
    _Loader(found, first_flag=text.count(b"\n") + 2).load(text)
    return found


@given(st.lists(st.tuples(st.sampled_from(MUTABLE), WORDS), max_size=4), OLD)
def test_any_config_set_comes_back_from_the_file_and_nothing_else_does(pairs, old):
    config = Config(enable_protected_configs="yes")
    for name, value in pairs:
        try:
            config.set([(name, value)])
        except ReplyError:
            continue
    assert values(written_and_read(config, old)) == values(config)


TEXTS = sorted(
    name for name, directive in DIRECTIVES.items() if type(directive.kind).__name__ in {"Text", "Bytes", "Bind"}
)  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@given(word=WORDS, old=OLD)
def test_any_text_of_a_directive_comes_back(name, word, old):
    config, directive = Config(), DIRECTIVES[name]
    try:
        value = directive.kind.parse(directive.words(word), getattr(config, directive.attribute))
    except ValueError:
        return
    setattr(config, directive.attribute, value)
    assert values(written_and_read(config, old)) == values(config)


@given(WORDS, st.integers(0, 65535), OLD)
def test_any_master_that_is_accepted_comes_back(host, port, old):
    client = make_client(server=FakeServer())
    followed = []
    client.server.log = SimpleNamespace(notice=lambda _: None)
    client.server.shares_loop = False
    client.server.replication = SimpleNamespace(
        link=None, failover=SimpleNamespace(active=False), follow=lambda *master: followed.append(master)
    )
    answer = run(client, "REPLICAOF", host, port)
    if answer == b"-ERR Invalid master host\r\n":
        assert any(byte <= 32 or byte == 127 for byte in host)
        return
    config = Config(replicaof=followed[0])
    assert values(written_and_read(config, old)) == values(config)


@pytest.mark.parametrize(
    "host", ["a\nb", "127.0.0.1 1\nenable-debug-command yes\n#", "a b", "a\x00", "a\x7f"]
)
def test_a_host_with_control_characters_or_spaces_is_refused(host):
    client = make_client(server=FakeServer())
    client.server.shares_loop = False
    client.server.replication = SimpleNamespace(link=None, failover=SimpleNamespace(active=False))
    for command in ("REPLICAOF", "SLAVEOF"):
        assert run(client, command, host, "1") == b"-ERR Invalid master host\r\n"


RULES = st.one_of(
    st.sampled_from([b"on", b"nopass", b"allkeys", b"+@all", b"+get", b"-set", b"&c", b"(~a +get)"]),
    st.builds(
        bytes.__add__,
        st.sampled_from(
            [b"~", b"%R~", b"&", b">", b"+", b"+get|", b"-get|", b"+@", b"+config|", b"(~", b"#"]
        ),
        WORDS,
    ),
)


def described(users):
    return {user.name: user.describe() for user in users}


@given(WORDS, st.lists(RULES, max_size=4), OLD)
def test_any_user_comes_back_from_both_files_and_no_other_user_does(tmp_path_factory, name, rules, old):
    users = Users()
    user = User(name or b"x")
    if not is_username(user.name):
        return
    try:
        for rule in joined(rules):
            user.apply(rule)
    except RuleError:
        return
    if user.name != b"default":
        users.by_name[user.name] = user
    before = described(copy.copy(users))

    path = str(tmp_path_factory.getbasetemp() / "users.acl")
    acl_file.write(path, users)
    found = Users()
    found.by_name = acl_file.read(path, all_channels=False)
    assert described(found) == before

    config = Config(users=[line.split()[1:] for line in acl_file.declaration(users, b"")])
    read = written_and_read(config, old)
    assert values(read) == values(config)
    found = Users()
    acl_file.configure(found, read.users, all_channels=False)
    assert described(found) == before


@given(WORDS)
def test_one_line_of_the_log_stays_one_line_and_steers_no_terminal(word):
    lines = []

    class Still:
        def unix_seconds(self):
            return 0.0

    log = Log(Still(), quiet=True)
    log.listener = lines.append
    log.warning(f"Connecting to MASTER {word.decode('utf-8', 'surrogateescape')}:1")
    (line,) = lines
    assert line.endswith("\n")
    assert line[:-1].splitlines() == [line[:-1]]
    assert all(character >= " " and character not in "\x7f\x9b" for character in line[:-1])


def test_details_of_a_line_follow_it_as_lines():
    lines = []

    class Still:
        def unix_seconds(self):
            return 0.0

    log = Log(Still(), quiet=True)
    log.listener = lines.append
    log.warning("a\nb\x1b[31m", details="c\nd\x1b\n")
    assert lines[0].endswith("# a\\nb\\x1b[31m\nc\nd\\x1b\n")
