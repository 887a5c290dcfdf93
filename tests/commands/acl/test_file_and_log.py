"""Users of a running server: the ACL file, `user` lines of redis.conf, ACL LOG, and what INFO counts."""

import subprocess

import pytest
from support.ports import free_port
from support.servers import ServerProcess, require_binary, start_server
from support.wire import ConnectionClosedError, Wire


@pytest.fixture
def start(tmp_path):
    running: list[ServerProcess] = []

    def run(*flags: str) -> ServerProcess:
        server = start_server("rillet", *flags, folder=tmp_path)
        running.append(server)
        return server

    yield run
    for server in running:
        server.stop()


def test_users_of_the_acl_file_are_there_after_a_restart(start, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("user bob on >pw ~* +@all\n")
    server = start("--aclfile", str(path))
    with server.wire() as wire:
        assert wire.call("AUTH", "bob", "pw").plain() == b"OK"
        assert wire.call("ACL", "SETUSER", "zed", "on", ">x", "+get", "~z*").plain() == b"OK"
        assert wire.call("ACL", "SAVE").plain() == b"OK"
        assert "user zed on" in path.read_text()
    server.restart()
    with server.wire() as wire:
        assert wire.call("AUTH", "zed", "x").plain() == b"OK"
        assert str(wire.call("GET", "k")).startswith("-NOPERM No permissions to access a key")


def test_a_bad_acl_file_changes_nothing(start, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("user bob on nopass +@all ~*\n")
    server = start("--aclfile", str(path))
    path.write_text("user bob on +foo\nuser x foo\nzzz\nuser bob on\n")
    with server.wire() as wire:
        before = wire.call("ACL", "LIST").plain()
        assert str(wire.call("ACL", "LOAD")) == (
            f"-ERR {path}:1: Error in applying operation '+foo': Unknown command or category name in ACL. "
            f"{path}:2: Syntax error. {path}:3 should start with user keyword followed by the username. "
            "WARNING: Duplicate user 'bob' found on line 4. "
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        )
        assert wire.call("ACL", "LIST").plain() == before


def test_comments_of_the_acl_file_are_left_out(start, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("# ours\nuser a on\n\t #user b on\n#\n")
    server = start("--aclfile", str(path))
    with server.wire() as wire:
        assert wire.call("ACL", "USERS").plain() == [b"a", b"default"]
        path.write_text("#x\nuser c on\nuser d on # no hash\n")
        assert b"users.acl:3: The password hash must be" in wire.call("ACL", "LOAD").value
        path.write_text("#x\nuser c on")
        assert wire.call("ACL", "LOAD").value == wire.call("ACL", "SAVE").value == b"OK"
        assert wire.call("ACL", "USERS").plain() == [b"c", b"default"]
    assert "#x" not in path.read_text()


def test_a_client_whose_user_is_gone_after_acl_load_is_closed(start, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("user bob on nopass +@all ~*\nuser al on nopass +@all\n")
    server = start("--aclfile", str(path))
    with server.wire() as admin, server.wire() as bob, server.wire() as al:
        bob.call("AUTH", "bob", "x")
        al.call("AUTH", "al", "x")
        path.write_text("user al on nopass -@all +ping\n")
        assert admin.call("ACL", "LOAD").plain() == b"OK"
        with pytest.raises((ConnectionClosedError, ConnectionResetError)):
            bob.call("PING")
        assert al.call("PING").plain() == b"PONG"
        assert str(al.call("GET", "k")).startswith(
            "-NOPERM User al has no permissions to run the 'get' command"
        )


@pytest.mark.parametrize("flags", [("--aclfile", "missing.acl"), ("--aclfile", "bad.acl")])
def test_a_server_does_not_start_with_users_it_can_not_read(flags, tmp_path, start):
    (tmp_path / "bad.acl").write_text("user a foo\n")
    with pytest.raises(Exception, match="did not start"):
        start(flags[0], str(tmp_path / flags[1]))


def test_users_of_the_configuration_file_are_rewritten(tmp_path):
    conf = tmp_path / "redis.conf"
    conf.write_text("user bob on >pw ~a +get\nuser default on nopass ~* &* +@all\n# the end\n")
    port = free_port()
    command = [str(require_binary("rillet")), str(conf), "--port", str(port), "--dir", str(tmp_path)]
    with subprocess.Popen([*command, "--bind", "127.0.0.1"], stdout=subprocess.PIPE, text=True) as process:
        while "Ready to accept" not in process.stdout.readline():
            assert process.poll() is None
        with Wire(port) as wire:
            assert wire.call("ACL", "USERS").plain() == [b"bob", b"default"]
            wire.call("ACL", "SETUSER", "n", "(+get)")
            wire.call("ACL", "DELUSER", "bob")
            assert wire.call("CONFIG", "REWRITE").plain() == b"OK"
        process.terminate()
    assert conf.read_text().splitlines()[:3] == [
        "user default on nopass sanitize-payload ~* &* +@all",
        "user n off sanitize-payload resetchannels -@all (resetchannels -@all +get)",
        "# the end",
    ]


def test_denials_are_logged_together_and_counted(start):
    server = start()
    with server.wire() as admin, server.wire() as bob:
        admin.call("ACL", "SETUSER", "bob", "on", ">pw", "+get", "+multi", "~a")
        for _ in range(2):
            bob.call("AUTH", "bob", "wrong")
        bob.call("AUTH", "bob", "pw")
        bob.call("GET", "x")
        bob.call("SET", "a", "1")
        bob.call("MULTI")
        bob.call("SET", "a", "1")
        entries = [dict(zip(each[::2], each[1::2], strict=True)) for each in admin.call("ACL", "LOG").plain()]
        facts = [(e[b"count"], e[b"reason"], e[b"context"], e[b"object"], e[b"username"]) for e in entries]
        assert facts == [
            (1, b"command", b"multi", b"set", b"bob"),
            (1, b"command", b"toplevel", b"set", b"bob"),
            (1, b"key", b"toplevel", b"x", b"bob"),
            (2, b"auth", b"toplevel", b"AUTH", b"bob"),
        ]
        assert [e[b"entry-id"] for e in entries] == sorted((e[b"entry-id"] for e in entries), reverse=True)
        assert b"cmd=auth user=default" in entries[-1][b"client-info"]
        stats = admin.call("INFO", "stats").plain().decode()
        for line in ("auth:2", "cmd:2", "key:1", "channel:0"):
            assert f"acl_access_denied_{line}\r\n" in stats
        assert admin.call("ACL", "LOG", "RESET").plain() == b"OK"
        assert admin.call("ACL", "LOG").plain() == []
        admin.call("CONFIG", "SET", "acllog-max-len", "1")
        bob.call("SET", "a", "1")
        bob.call("SET", "b", "1")
        bob.call("GET", "x")
        assert len(admin.call("ACL", "LOG").plain()) == 1


def test_a_denial_names_the_command_that_was_denied_and_not_the_one_before(start):
    server = start()
    with server.wire() as admin, server.wire() as wire:
        admin.call("ACL", "SETUSER", "bob", "on", "nopass", "~a", "+set")
        wire.call("AUTH", "bob", "x")
        wire.call("SET", "a", 1)
        wire.call("CLIENT", "GETNAME")
        entry = admin.call("ACL", "LOG").plain()[0]
        assert b" cmd=client|getname " in entry[entry.index(b"client-info") + 1]
