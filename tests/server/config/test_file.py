import io
import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.thorough import examples

from rillet import __version__
from rillet.__main__ import _USAGE
from rillet.protocol.errors import ReplyError
from rillet.server.config.config import DIRECTIVES, Config
from rillet.server.config.file import (
    _VERBS,
    ConfigFileError,
    asks_for,
    parse_arguments,
    rewrite,
    rewrite_config,
)


def parse_text(text):
    return parse_arguments(["-"], io.BytesIO(text))


def error_of(call, *arguments):
    with pytest.raises(ConfigFileError) as caught:
        call(*arguments)
    return str(caught.value)


UNKNOWN = "Bad directive or wrong number of arguments"
HOW_FLAGS_ARE_WRITTEN = "rillet --help shows how flags are written"


def fatal(line, text, why):
    return (
        f"\n*** FATAL CONFIG FILE ERROR (Rillet {__version__}) ***\n"
        f"Reading the configuration file, at line {line}\n>>> '{text}'\n{why}\n"
    )


# Lines


def test_comments_blanks_case_and_quotes_are_redis_own():
    config = parse_text(
        b"# port 1\n\n  PORT 7777 \r\nrequirepass \"a\\x41\\n\"\n\tmasterauth 'it\\'s'\nhz 20"
    )
    assert (config.port, config.requirepass, config.masterauth, config.hz) == (7777, b"aA\n", b"it's", 20)


def test_debian_s_file_is_read():
    text = (
        b"daemonize yes\n"
        b'bind 127.0.0.1 -::1\nprotected-mode yes\nport 6379\nsupervised auto\nloglevel notice\nlogfile ""\n'
        b"save 900 1\nsave 300 10\nclient-output-buffer-limit normal 0 0 0\n"
        b"client-output-buffer-limit replica 256mb 64mb 60\nauto-aof-rewrite-min-size 64mb\n"
        b'proc-title-template "{title} {listen-addr} {server-mode}"\nnotify-keyspace-events ""\n'
    )
    config = parse_text(text)
    assert config.bind == ("127.0.0.1", "-::1")
    assert config.save == ((900, 1), (300, 10))
    assert config.daemonize


INTEGER = "argument couldn't be parsed into an integer"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("port 1\nfoo bar\n", UNKNOWN),
        ("port a", INTEGER),
        ('"abc', "Unbalanced quotes in configuration line"),
        ('port "17740"x', "Unbalanced quotes in configuration line"),
        ("port", "wrong number of arguments"),
        ("\n\nport 1 2", "wrong number of arguments"),
        ("maxclients 0", "argument must be between 1 and 4294967295 inclusive"),
        ("save 1", "Invalid save parameters"),
        ("dir /nope", "No such file or directory\nMake the folder (mkdir -p), or name another one with dir"),
        ("dir /etc/passwd", "Not a directory"),
        ("replicaof a", "wrong number of arguments"),
        ("replicaof a b", "Invalid master port"),
        ("unixsocketperm 999", "argument couldn't be parsed as an octal number"),
        ("appendfilename a/b", "appendfilename can't be a path, just a filename"),
        ("appenddirname a/b", "appenddirname can't be a path, just a dirname"),
        ('appenddirname ""', "appenddirname can't be empty"),
        ("enable-debug-command x", "argument(s) must be one of the following: no, yes, local"),
        ("rename-command a b", "No such command in rename-command"),
        ("rename-command get SET", "Target command name already exists"),
        ("rename-command config|get x", "No such command in rename-command"),
        ("loadmodule x.so", "Modules are not supported by Rillet"),
        ("user a on\nuser a off", "Duplicate user found. A user can only be defined once in config files"),
        ("cluster-enabled yes", "a node of a cluster is started by `rillet cluster` or rillet.testing.Cluster"),
    ],
)  # fmt: skip
def test_a_bad_line_is_reported_with_its_number(text, why):
    lines = text.rstrip("\n").split("\n")
    assert error_of(parse_text, text.encode()) == fatal(len(lines), lines[-1], why)


def test_save_lines_replace_the_defaults_and_add_up():
    assert parse_text(b"save 5 5").save == ((5, 5),)
    assert parse_text(b"save 5 5\nsave 6 6 7 7").save == ((5, 5), (6, 6), (7, 7))
    assert parse_text(b'save 5 5\nsave ""\nsave 8 8').save == ((8, 8),)
    assert parse_text(b"save").save == ()
    assert parse_text(b'save "1 2 3 4"').save == ((1, 2), (3, 4))


def test_replicaof_takes_host_and_port_or_no_one():
    assert parse_text(b"slaveof localhost 7000").replicaof == ("localhost", 7000)
    assert parse_text(b"replicaof localhost 7000\nreplicaof NO one").replicaof is None


def test_obsolete_directives_are_passed_over():
    assert vars(parse_text(b"lua-replicate-commands yes\nlist-max-ziplist-entries 5")) == vars(Config())


# Files


def test_include_reads_files_and_globs_in_place(tmp_path):
    (tmp_path / "a1.conf").write_text("timeout 1\nhz 30\n")
    (tmp_path / "a2.conf").write_text("timeout 2\n")
    config = parse_text(f"hz 20\ninclude {tmp_path}/a*.conf\ninclude {tmp_path}/zz*.conf\n".encode())
    assert (config.hz, config.timeout) == (30, 2)


def test_include_of_a_missing_file_is_fatal():
    assert error_of(parse_text, b"include /nope/x.conf") == (
        "Fatal error, can't open config file '/nope/x.conf': No such file or directory"
    )


def test_an_error_in_an_included_file_names_its_line(tmp_path):
    (tmp_path / "inner.conf").write_text("\n\nfoo\n")
    assert error_of(parse_text, f"include {tmp_path}/inner.conf".encode()) == fatal(
        3, "foo", "Bad directive or wrong number of arguments"
    )


def test_files_that_include_each_other_end_with_an_error(tmp_path):
    (tmp_path / "a.conf").write_text(f"include {tmp_path}/a.conf\n")
    assert "Too many files including one another" in error_of(parse_arguments, [str(tmp_path / "a.conf")])


# The command line


def test_no_words_give_the_defaults():
    assert vars(parse_arguments([])) == vars(Config())


def test_a_missing_file_is_named_absolutely():
    assert error_of(parse_arguments, ["nope.conf"]) == (
        f"Fatal error, can't open config file '{Path.cwd()}/nope.conf': No such file or directory"
    )


def test_flags_follow_the_file_and_win(tmp_path, monkeypatch):
    (tmp_path / "redis.conf").write_text("port 1\nhz 20")
    monkeypatch.chdir(tmp_path)
    config = parse_arguments(["redis.conf", "--port", "2", "--APPENDONLY", "YES"])
    assert (config.port, config.hz, config.appendonly) == (2, 20, True)
    assert config.config_file == str(tmp_path / "redis.conf")


@pytest.mark.parametrize(
    ("words", "save"),
    [
        (["--save", ""], ()),
        (["--save"], ()),
        (["--save", "--appendonly", "yes"], ()),
        (["--save", "", "--appendonly", "yes"], ()),
        (["--save", "900", "1", "300", "10"], ((900, 1), (300, 10))),
        (["--save", "900 1 300 10"], ((900, 1), (300, 10))),
        (["--save 900 1"], ((900, 1),)),
        (["--save", "900", "1", "--save", "300", "10"], ((900, 1), (300, 10))),
    ],
)
def test_save_has_many_spellings(words, save):
    config = parse_arguments(words)
    assert config.save == save
    assert config.appendonly == ("--appendonly" in words)


def test_a_value_may_look_like_a_flag():
    config = parse_arguments(["--requirepass", "--abc", "--hz", "20"])
    assert (config.requirepass, config.hz) == (b"--abc", 20)


def test_odd_bytes_pass_through_the_command_line():
    assert parse_arguments(["--requirepass", os.fsdecode(b'\xff "q" \n')]).requirepass == b'\xff "q" \n'


@pytest.mark.parametrize(
    ("words", "line", "shown", "why"),
    [
        (["--port", "1", "--foo", "bar"], 3, 'foo "bar"', f"{UNKNOWN}\n{HOW_FLAGS_ARE_WRITTEN}"),
        (["--port"], 2, "port", "wrong number of arguments"),
        (["--port", "--save"], 2, 'port "--save"', INTEGER),
        (["--port", "1", "foo"], 2, 'port "1" "foo"', "wrong number of arguments"),
        (["--port", "1", "-", "--hz", "1"], 2, 'port "1" "-"', "wrong number of arguments"),
        (["--save=5"], 2, "save=5", f"{UNKNOWN}\nDid you mean '--save 5'?"),
        (["--prot", "7000"], 2, 'prot "7000"', f"{UNKNOWN}\nDid you mean '--port 7000'?"),
        (
            ["--hz", "1", "--appendonyl=yes"],
            3,
            "appendonyl=yes",
            f"{UNKNOWN}\nDid you mean '--appendonly yes'?",
        ),
        (["--p=7000"], 2, "p=7000", f"{UNKNOWN}\nDid you mean '--port 7000'?"),
        (["--save", "a b"], 2, 'save "a b"', "Invalid save parameters"),
        (["--foo", "--version"], 2, 'foo "--version"', f"{UNKNOWN}\n{HOW_FLAGS_ARE_WRITTEN}"),
    ],
)
def test_a_bad_flag_is_reported_as_a_line(words, line, shown, why):
    assert error_of(parse_arguments, words) == fatal(line, shown, why)


HOW_VERBS_ARE_LISTED = "rillet --help lists what the first word may be"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["-p", "7000"], "Did you mean '--port 7000'?"),
        (["-p"], "Did you mean '--port'?"),
        (["-port=7000"], "Did you mean '--port 7000'?"),
        (["-xyz"], HOW_FLAGS_ARE_WRITTEN),
        (["7000"], "Did you mean '--port 7000'?"),
        (["chek-aof", "x.aof"], f"Did you mean 'rillet check-aof'?\n{HOW_VERBS_ARE_LISTED}"),
        (["tpo"], f"Did you mean 'rillet top'?\n{HOW_VERBS_ARE_LISTED}"),
        (["help"], f"Did you mean 'rillet --help'?\n{HOW_VERBS_ARE_LISTED}"),
        (["xyzzy"], HOW_VERBS_ARE_LISTED),
    ],
)
def test_a_first_word_that_is_no_file_is_taken_for_a_flag(words, hint):
    assert error_of(parse_arguments, words) == (
        f"Fatal error, can't open config file '{Path.cwd()}/{words[0]}': No such file or directory\n{hint}"
    )


def test_each_verb_of_the_help_is_one_that_may_have_been_meant():
    listed = {line.split()[1] for line in _USAGE.splitlines() if re.match(r" +rillet [a-z]", line)}
    assert listed == set(_VERBS)


def test_a_misspelt_line_of_a_file_gets_the_line_that_was_meant(tmp_path):
    file = tmp_path / "redis.conf"
    file.write_text("appendonyl yes")
    assert error_of(parse_arguments, [str(file)]).endswith(f"\n{UNKNOWN}\nDid you mean 'appendonly yes'?\n")
    file.write_text("xyzzy yes")
    assert error_of(parse_arguments, [str(file)]).endswith(f"\n{UNKNOWN}\n")


@pytest.mark.parametrize("words", [["-", "--port", "2"], ["--port", "2", "-"]])
def test_a_dash_reads_standard_input_before_the_flags(words):
    config = parse_arguments(words, io.BytesIO(b"port 1\nappendonly yes"))
    assert (config.port, config.appendonly) == (2, True)


def test_only_the_first_word_asks_for_version_or_help():
    asked = [asks_for([word]) for word in ("-v", "--version", "-h", "--help", "--port")]
    assert asked == ["version", "version", "help", "help", None]
    assert asks_for([]) is None
    assert asks_for(["--port", "-v"]) is None


# CONFIG REWRITE


def rewritten(tmp_path, text, change):
    path = tmp_path / "redis.conf"
    path.write_text(text)
    config = parse_arguments([str(path)])
    config.dir = "/srv"
    change(config)
    rewrite(config, str(path))
    return path.read_text()


def test_rewrite_keeps_comments_and_order_and_updates_lines(tmp_path):
    text = "# top\nport 7000\n\n  # hint\nhz   10\ndir /tmp\n# end\n"

    def change(config):
        config.set([(b"hz", b"20"), (b"port", b"6379")])

    assert rewritten(tmp_path, text, change) == '# top\nport 6379\n\n  # hint\nhz 20\ndir "/srv"\n# end\n'


def test_rewrite_appends_what_is_not_default_under_its_signature_once(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_text("port 7000\n")
    config = parse_arguments([str(path), "--maxmemory", "100mb"])
    config.dir = "/srv"
    for name, value in ((b"timeout", b"5"), (b"stream-node-max-bytes", b"8192"), (b"hz", b"10")):
        config.set([(name, value)])
        rewrite(config, str(path))
    assert path.read_text() == (
        'port 7000\n\n# Generated by CONFIG REWRITE\ntimeout 5\nmaxmemory 100mb\ndir "/srv"\n'
        "stream-node-max-bytes 8kb\n"
    )


POINTS = "3600 1 300 100 60 10000"
GENERATED = "\n# Generated by CONFIG REWRITE\n"


@pytest.mark.parametrize(
    ("text", "name", "value", "expected"),
    [
        (
            "save 1 1\nHZ 11\nsave 2 2\nhz 12\nslave-priority 5\ndir /tmp\n", "save", "3 3",
            'save 3 3\nhz 12\nreplica-priority 5\ndir "/srv"\n',
        ),
        ("save 1 1\nsave 2 2\ndir /tmp\n", "save", POINTS, f'save {POINTS}\ndir "/srv"\n'),
        ("dir /tmp\n", "save", "", f'dir "/srv"\n{GENERATED}save ""\n'),
        ("requirepass x\ndir /tmp\n", "requirepass", "", 'dir "/srv"\n'),
        (
            "client-output-buffer-limit replica 1mb 1 1\ndir /tmp\n", "client-output-buffer-limit", "pubsub 1gb 1000 1",
            'client-output-buffer-limit replica 1mb 1 1\ndir "/srv"\n' + GENERATED + "client-output-buffer-limit pubsub 1gb 1000 1\n",
        ),
    ],
    ids=["surplus lines", "default save points", "nothing is saved", "a cleared password", "output limits by class"],
)  # fmt: skip
def test_rewrite_writes_what_was_set_into_its_first_line_or_behind_the_rest(
    tmp_path, text, name, value, expected
):
    assert rewritten(tmp_path, text, lambda config: config.set([(name.encode(), value.encode())])) == expected


def test_rewrite_keeps_includes_and_unknown_lines_as_they_are(tmp_path):
    (tmp_path / "inner.conf").write_text("hz 20\n")
    text = f"include {tmp_path}/inner.conf\nlua-replicate-commands  yes\ndir /tmp\n"
    assert rewritten(tmp_path, text, lambda _: None) == (
        text.replace("dir /tmp", 'dir "/srv"') + "\n# Generated by CONFIG REWRITE\nhz 20\n"
    )


def test_rewrite_keeps_the_file_mode_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_text("hz 20\n")
    path.chmod(0o640)
    (tmp_path / "link.conf").symlink_to(path)
    rewrite(parse_arguments([str(path)]), str(tmp_path / "link.conf"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.conf", "redis.conf"]
    assert (tmp_path / "link.conf").is_symlink()


def test_a_failed_rewrite_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "redis.conf"
    path.write_text("hz 20\n")

    def refuse(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        rewrite(Config(hz=30), str(path))
    assert path.read_text() == "hz 20\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["redis.conf"]


def test_config_rewrite_writes_the_file_that_was_read(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_text("hz 20\n")
    config = parse_arguments([str(path)])
    config.set([(b"hz", b"30")])
    rewrite_config(config)
    assert path.read_text().startswith("hz 30\n")


def test_config_rewrite_without_a_file_is_an_error():
    with pytest.raises(ReplyError) as caught:
        rewrite_config(Config())
    assert caught.value.text == b"ERR The server is running without a config file"


def test_config_rewrite_returns_why_it_failed(tmp_path):
    (tmp_path / "redis.conf").mkdir()
    with pytest.raises(ReplyError) as caught:
        rewrite_config(Config(config_file=str(tmp_path / "redis.conf")))
    assert caught.value.text == b"ERR Rewriting config file: Is a directory"


def test_rewrite_makes_a_file_that_went_away_again(tmp_path):
    path = tmp_path / "redis.conf"
    rewrite(Config(hz=30), str(path))
    assert parse_text(path.read_bytes()).hz == 30


VALUES = st.sampled_from([
    *("yes", "no", "1", "5", "100", "1mb", "3gb", "5%", "900", "everysec", "always", "debug", "KEA", "AKEmn", "KElx"),
    *("n", "default", "allchannels", "", "1 2", "1 2 3", "1 2 3 4", "3600 1 300 100 60 10000", "pubsub 1 2 3"),
    *("normal 1kb 2 3 slave 5 6 7", "a b", 'x"\\\n', "* ::1", "50 99.5"),
])  # fmt: skip
NAMES = st.sampled_from(sorted(name for name, each in DIRECTIVES.items() if each.mutable and name != b"dir"))


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.lists(st.tuples(NAMES, VALUES), max_size=6))
def test_what_is_rewritten_is_read_back_the_same(tmp_path, first, second):
    path = tmp_path / "redis.conf"
    path.write_text("# mine\nsave 1 1\nsave 2 2\nclient-output-buffer-limit pubsub 1 1 1\n")
    config = parse_arguments([str(path)])
    config.enable_protected_configs = "yes"
    for pairs in (first, second):
        for name, value in pairs:
            try:
                config.set([(name, value.encode())])
            except ReplyError:
                continue
        rewrite(config, str(path))
        assert vars(parse_arguments([str(path)])) == vars(config)
        assert path.read_bytes().startswith(b"# mine\n")
        again = path.read_bytes()
        rewrite(config, str(path))
        assert path.read_bytes() == again
