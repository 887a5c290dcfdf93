"""Which words SLOWLOG shows of commands that name users, passwords and secrets."""

import pytest
from support.servers import start_server

LINES = """
    ACL SETUSER u on >p ~k; ACL GETUSER u; ACL getuser nosuch; ACL DELUSER u; ACL DELUSER a b; ACL SETUSER; ACL SETUSER v; ACL LIST
    ACL CAT read; ACL WHOAMI; ACL GENPASS 8; ACL LOG 1; ACL DRYRUN default get a; ACL USERS; AUTH default x; AUTH x; auth y
    HELLO 2 AUTH default x SETNAME a; HELLO 2 SETNAME b; HELLO 2 SETNAME AUTH; CONFIG SET masterauth x; CONFIG SET masteruser x
    CONFIG SET maxclients 1000 MasterAuth x; CONFIG GET requirepass; MIGRATE h 1 k 0 1 AUTH p; MIGRATE h 1 k 0 1 COPY AUTH p
    MIGRATE 127.0.0.1 1 NIL 0 1 AUTH2 u p KEYS a b; EVAL return_redis.call('acl','getuser','v') 0; CLIENT KILL USER u
    MULTI; ACL GETUSER v; AUTH default x; SET k v; EXEC; ACL HELP; SLOWLOG GET 1; REPLICAOF NO ONE; SET secret AUTH; XADD s * a b
    CONFIG SET masterauth x maxmemory 0 masteruser x; CONFIG SET masterauth; HELLO 2 SETNAME x AUTH default; AUTH somebody x
"""
# What is long: it is cut.
CUT = (
    *(f"SET k {'x' * size}" for size in (128, 129)),
    *(f"DEL {' '.join(map(str, range(number)))}" for number in (31, 32)),
    f"MSET {' '.join(map(str, range(40)))}",
)


def shown(kind: str) -> list[list[bytes]]:
    with start_server(kind) as server, server.wire() as wire:
        wire.call("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "1000")
        for line in (*filter(None, map(str.strip, LINES.replace("\n", ";").split(";"))), *CUT):
            wire.call(*(word.replace("return_", "return ") for word in line.split()))
        entries = wire.call("SLOWLOG", "GET", "-1").plain()
        assert wire.call("SLOWLOG", "LEN").plain() == len(entries) + 1  # with that GET
        assert [entry[0] for entry in entries] == sorted((entry[0] for entry in entries), reverse=True)
        return [entry[3] for entry in entries]


@pytest.mark.parametrize(("mine", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_the_slow_log_hides_what_the_real_server_hides(mine, real):
    assert shown(mine) == shown(real)
