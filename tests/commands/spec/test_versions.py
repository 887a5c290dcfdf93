"""The setting compat-version: what the server knows, says and hides as an older Redis.

How the older versions behave is compared with real servers in tests/differential.
"""

import pytest
from support.servers import start_server

from rillet.commands.spec.command import REGISTRY
from rillet.commands.spec.older import known_commands
from rillet.commands.spec.versions import NEWEST, VERSIONS, compat_with

INVALID_ID = "-ERR Invalid stream ID specified as stream command argument"
NEWER = {
    "XDELEX": "8.2", "XACKDEL": "8.2", "XCFGSET": "8.6", "XIDMPRECORD": "8.6", "XNACK": "8.8",
}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with start_server("rillet") as process:
        yield process


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        yield connection
        connection.call("CONFIG", "SET", "compat-version", NEWEST)
        connection.call("FLUSHALL")


def become(wire, version):
    assert str(wire.call("CONFIG", "SET", "compat-version", version)) == "+OK"


def words(text):
    return text.split(" ")


def test_the_newest_version_is_the_default_and_lacks_nothing():
    assert known_commands(compat_with(NEWEST)).keys() == REGISTRY.keys()
    assert list(VERSIONS)[-1] == NEWEST


def test_versions_are_compared_by_number():
    assert compat_with("8.10").knows("8.8.0")
    assert compat_with("8.6").knows("8.6.2")
    assert not compat_with("8.8").knows("8.10.0")
    assert not compat_with("7.4").knows("8.0.0")


def test_an_unknown_version_is_refused(wire):
    assert str(wire.call("CONFIG", "SET", "compat-version", "9.0")) == (
        "-ERR CONFIG SET failed (possibly related to argument 'compat-version') - argument(s) must be one of the "
        "following: 7.0, 7.2, 7.4, 8.0, 8.2, 8.4, 8.6, 8.8, 8.10"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_is_shown_everywhere(wire, version):
    become(wire, version)
    release = VERSIONS[version].encode()
    assert release.startswith(version.encode() + b".")
    assert b"\r\nredis_version:%b\r\n" % release in wire.call("INFO", "server").value
    hello = wire.call("HELLO").plain()
    assert hello[hello.index(b"version") + 1] == release
    assert wire.call("LOLWUT").value.rstrip().endswith(b"Redis ver. " + release)
    assert wire.call("CONFIG", "GET", "compat-version").plain() == [b"compat-version", version.encode()]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_listed_is_known_and_nothing_else(wire, version):
    become(wire, version)
    listed = {name.decode() for name in wire.call("COMMAND", "LIST").plain()}
    commands = {name for name in listed if "|" not in name}
    assert commands == {entry[0].decode() for entry in wire.call("COMMAND").plain()}
    assert len(commands) == wire.call("COMMAND", "COUNT").plain()
    for name, since in NEWER.items():
        known = compat_with(version).knows(since)
        assert (name.lower() in listed) == known
        assert wire.call("COMMAND", "INFO", name).plain()[0] is None or known
        assert bool(wire.call("COMMAND", "DOCS", name).plain()) == known
        assert (name.lower().encode() in wire.call("ACL", "CAT", "stream").plain()) == known
        assert str(wire.call(name, "s")).startswith(f"-ERR unknown command '{name}'") == (not known)


def test_a_queued_command_runs_though_the_version_changes_before_it(wire):
    wire.call("MULTI")
    wire.call("CONFIG", "SET", "compat-version", "7.0")
    wire.call(*words("XDELEX s IDS 1 1-0"))
    assert wire.call("EXEC").plain() == [b"OK", [-1]]
    assert str(wire.call("XDELEX")).startswith("-ERR unknown command")


def test_a_server_starts_as_the_configured_version(tmp_path):
    file = tmp_path / "rillet.conf"
    file.write_text("compat-version 7.2\n")
    with start_server("rillet", folder=tmp_path) as process, process.wire() as wire:
        assert wire.call("CONFIG", "GET", "compat-version").plain()[1] == NEWEST.encode()
    with start_server("rillet-7.2", folder=tmp_path) as process, process.wire() as wire:
        assert wire.call("CONFIG", "GET", "compat-version").plain()[1] == b"7.2"
        assert str(wire.call("XDELEX")).startswith("-ERR unknown command")


@pytest.mark.parametrize(("version", "consumers"), [("7.0", 0), ("7.2", 2)])
def test_consumers_of_nothing_exist_since_7_2(wire, version, consumers):
    become(wire, version)
    wire.call(*words("XGROUP CREATE s g $ MKSTREAM"))
    wire.call(*words("XREADGROUP GROUP g a STREAMS s >"))
    wire.call(*words("XCLAIM s g b 0 1-0"))
    assert len(wire.call("XINFO", "CONSUMERS", "s", "g").plain()) == consumers


@pytest.mark.parametrize("version", ["7.0", "8.10"])
def test_the_entries_that_a_group_has_read_are_a_number_of_64_bits(wire, version):
    wire.call("CONFIG", "SET", "compat-version", version)
    most = str(2**63 - 1)
    wire.call("XADD", "s", "1-1", "f", "v")
    wire.call("XSETID", "s", "1-5", "ENTRIESADDED", most)
    wire.call("XGROUP", "CREATE", "s", "g", "$", "ENTRIESREAD", most)
    wire.call("XADD", "s", "1-6", "f", "v")
    wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    assert f'$"entries-read" :{most}' in str(wire.call("XINFO", "GROUPS", "s"))


def test_a_claim_as_7_0_keeps_the_times_of_a_consumer_that_gets_nothing(wire):
    wire.call(*words("XADD s 1-0 f v"))
    wire.call(*words("XGROUP CREATE s g 0"))
    wire.call(*words("XREADGROUP GROUP g a STREAMS s >"))
    before = wire.call(*words("XINFO STREAM s FULL")).encode()
    become(wire, "7.0")
    for command in ("XCLAIM s g a 0 9-0", "XCLAIM s g a x 1-0", "XAUTOCLAIM s g a 0 5"):
        wire.call(*words(command))
    become(wire, NEWEST)
    assert wire.call(*words("XINFO STREAM s FULL")).encode() == before


NO_OPTION = "Unknown option or number of arguments for CONFIG SET - "
UNBALANCED = "list of streams: for each stream key an ID"


@pytest.mark.parametrize(
    ("since", "command", "before", "after"),  # what the replies of older and of newer versions contain
    [
        ("7.2", "CLIENT NO-TOUCH off", "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.", "+OK"),
        ("7.2", "COMMAND INFO client|no-touch", "*[null", "client|no-touch"),
        ("7.2", "COMMAND INFO client", "client|no-evict", "client|no-touch"),
        ("7.2", "CLIENT INFO", " resp=", " lib-name="),
        ("7.4", "CLIENT INFO", " resp=", " watch="),
        ("8.0", "CLIENT INFO", " resp=", " io-thread="),
        ("7.4", "CLIENT KILL MAXAGE 1000000", "-ERR syntax error", ":0"),
        ("7.4", "XREAD STREAMS s +", INVALID_ID, "null"),
        ("8.2", "XADD s KEEPREF * a b", INVALID_ID, "$"),
        ("8.2", "XADD s DELREF * a b", INVALID_ID, "$"),
        ("8.2", "XTRIM s MAXLEN 5 ACKED", "-ERR syntax error", ":0"),
        ("8.2", "XINFO GROUPS ahead", '$"entries-read" :500', '$"entries-read" :1'),
        ("8.2", "COMMAND DOCS XADD", "NOMKSTREAM", "KEEPREF"),
        ("8.2", "COMMAND DOCS XADD", "NOMKSTREAM", "8.2.0"),
        ("8.2", "CONFIG SET notify-keyspace-events KEo", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.", "+OK"),
        ("8.2", "CONFIG SET notify-keyspace-events KEc", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.", "+OK"),
        ("8.4", "XREADGROUP GROUP g c CLAIM 0 STREAMS s >", "-ERR syntax error", "null"),
        ("8.6", "XADD s IDMP p i * a b", INVALID_ID, "$"),
        ("8.6", "XADD s IDMPAUTO p * a b", INVALID_ID, "$"),
        ("8.6", "XINFO STREAM s", '$"recorded-first-entry-id"', '$"iids-duplicates"'),
        ("8.6", "COMMAND DOCS XADD", "NOMKSTREAM", "IDMPAUTO"),
        ("8.6", "CONFIG GET stream-*", "stream-node-max-bytes", "stream-idmp-duration"),
        ("8.6", "CONFIG GET stream-*", "stream-node-max-bytes", "stream-idmp-maxsize"),
        ("8.6", "CONFIG SET stream-idmp-duration 50", f"-ERR {NO_OPTION}'stream-idmp-duration'", "+OK"),
        ("8.6", "CONFIG SET stream-idmp-maxsize 50", f"-ERR {NO_OPTION}'stream-idmp-maxsize'", "+OK"),
        *[("8.8", f"CONFIG SET notify-keyspace-events h{letter}", "Invalid event class", "+OK") for letter in "STIV"],
        ("8.10", "COMMAND INFO XREAD", "xread", "+incomplete"),
        ("8.10", "XREAD MAXCOUNT 1 STREAMS s 0", "-ERR syntax error", "null"),
        ("8.10", "XREADGROUP GROUP g c MAXSIZE 1 STREAMS s >", "-ERR syntax error", "null"),
        ("8.6", "NOTHING", "-ERR unknown command 'NOTHING', with args beginning with: ",
         "-ERR unknown command 'NOTHING'"),
        ("7.2", "XADD full 5-* f v", "-ERR Elements are too large to be stored",
         "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("7.2", "COMMAND GETKEYS PING", "-ERR wrong number of arguments for 'command|getkeys' command",
         "-ERR The command has no key arguments"),
        ("7.2", "XREADGROUP GROUP g c STREAMS s t >", f"-ERR Unbalanced XREAD {UNBALANCED} or '$' must be specified.",
         f"-ERR Unbalanced 'xreadgroup' {UNBALANCED} or '>' must be specified."),
        ("7.4", "XREAD STREAMS full t 0", f"-ERR Unbalanced 'xread' {UNBALANCED} or '$' must be specified.",
         f"-ERR Unbalanced 'xread' {UNBALANCED}, '+', or '$' must be specified."),
    ],
)  # fmt: skip
def test_options_texts_and_checks_of_the_version(wire, since, command, before, after):
    wire.call(*words("CONFIG SET stream-idmp-duration 100 stream-idmp-maxsize 100 notify-keyspace-events K"))
    for version in VERSIONS:
        if version == "7.0" and command.startswith("XREAD STREAMS full"):
            continue  # 7.0 has a third form, compared with the real server
        become(wire, version)
        wire.call("FLUSHALL")
        wire.call(*words("XADD full 5-18446744073709551615 f v"))
        wire.call(*words("XADD ahead 1-0 f v"))
        wire.call(*words("XGROUP CREATE ahead g 0 ENTRIESREAD 500"))
        wire.call(*words("XGROUP CREATE s g 0 MKSTREAM"))
        reply = str(wire.call(*words(command)))
        is_newer = compat_with(version).knows(since)
        shown = after if is_newer else before
        assert reply == shown if shown[0] == "-" else shown in reply, version
        assert is_newer or after in before or after not in reply, version
