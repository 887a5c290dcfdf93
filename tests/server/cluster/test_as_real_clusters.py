"""A cluster of Rillet answers as clusters of real servers do, word by word."""

import re

import pytest
from support.deployments.cluster_scene import Scene
from support.until import until
from support.wire import Wire

KEYS = """
m0 SET b 1
m0 GET b
m0 SET foo 1
m1 GET foo
m2 SET foo 1
m0 MSET a 1 foo 2
m2 MGET foo bar
m0 DEL b f
m0 EXISTS b {b}c
m0 GET
m0 OBJECT ENCODING foo
m0 MEMORY USAGE foo
m0 XREAD STREAMS foo 0
m0 XREAD STREAMS b f 0 0
m0 XREADGROUP GROUP g c STREAMS foo >
m0 GEORADIUS b 1 1 1 m STORE foo
m0 PFCOUNT b foo
m0 CLUSTER KEYSLOT foo{bar}
m0 CLUSTER KEYSLOT {}a
m0 CLUSTER KEYSLOT {a
m0 CLUSTER KEYSLOT a{{b}}
m0 CLUSTER COUNTKEYSINSLOT 3300
m0 CLUSTER COUNTKEYSINSLOT 99999
m0 CLUSTER COUNTKEYSINSLOT x
m0 CLUSTER COUNTKEYSINSLOT 12182
m0 CLUSTER GETKEYSINSLOT 3300 10
m0 CLUSTER GETKEYSINSLOT 3300 0
m0 CLUSTER GETKEYSINSLOT 3300 -1
m0 SORT b BY w_*
m0 SORT b BY nosort GET x_*
m0 SORT b BY nosort GET #
m0 SORT {b}x BY {b}w_*
m0 SORT {b}x BY {b}w_* GET {b}v_*->f
m0 SORT {b}x BY {c}w_*
m0 SORT_RO {b}x GET f
m0 SELECT 0
m0 SELECT 1
m0 SELECT 99
m0 SELECT x
m0 SWAPDB 0 1
m0 MOVE foo 1
m0 COPY b {b}2 DB 0
m0 COPY {b}2 {b}3 DB 1
m0 REPLICAOF 127.0.0.1 1
m0 REPLICAOF NO ONE
m0 FAILOVER
m0 CONFIG GET cluster-enabled
m0 CONFIG GET databases
m0 CLUSTER MYID
m1 CLUSTER NOTHING
"""

REPLICAS = """
r0 GET b
r0 READONLY
r0 GET b
r0 SET b 2
r0 GET foo
r0 MGET b foo
r0 EVAL return~redis.call('get','b') 1 b
r0 EVAL return~redis.call('set','b','2') 1 b
r0 EVAL_RO return~redis.call('get','b') 1 b
r0 EVAL return~redis.call('get','foo') 0
r0 MULTI
r0 GET b
r0 GET {b}none
r0 EXEC
r0 MULTI
r0 GET b
r0 SET b 2
r0 EXEC
r0 XREAD STREAMS {b}stream 0
r0 READWRITE
r0 GET b
r0 READONLY
r0 RESET
r0 GET b
r0 REPLICAOF NO ONE
m0 READONLY
m0 GET b
m0 READWRITE
"""

TRANSACTIONS = """
m0 MULTI
m0 SET b 1
m0 SET foo 1
m0 EXEC
m0 MULTI
m0 SET b 1
m0 SET {b}c 1
m0 EXEC
m0 MULTI
m0 SET b 1
m0 SET f 1
m0 EXEC
m0 EXEC
m0 WATCH foo
m0 WATCH b f
m0 WATCH b
m0 MULTI
m0 PING
m0 EXEC
"""

SCRIPTS = """
m0 EVAL return~redis.call('set','b','1') 1 b
m0 EVAL return~redis.call('get','foo') 1 b
m0 EVAL return~redis.call('get','foo') 0
m0 EVAL return~redis.call('get','b') 0
m0 EVAL redis.call('get','b')~return~redis.call('get','f') 0
m0 EVAL redis.call('get','b')~return~redis.call('get','f') 1 b
m0 EVAL return~redis.call('mget','b','f') 0
m0 EVAL return~redis.pcall('get','foo') 2 b f
m0 EVAL return~redis.pcall('get','foo').err 1 b
m0 EVAL return~1 1 foo
m0 EVAL return~redis.call('cluster','keyslot','b') 0
m0 EVAL return~redis.call('spublish','foo','x') 0
m0 EVAL return~redis.call('spublish','b','x') 0
"""
SHEBANGS = [
    ("#!lua\nreturn redis.call('get','f')", "0"),
    ("#!lua\nreturn redis.call('get','f')", "1", "b"),
    ("#!lua\nredis.call('get','b') return redis.call('get','f')", "0"),
    ("#!lua flags=allow-cross-slot-keys\nredis.call('get','b') return redis.call('get','f')", "0"),
    ("#!lua flags=allow-cross-slot-keys\nreturn redis.call('get','foo')", "0"),
    ("#!lua flags=no-cluster\nreturn 1", "0"),
]

CHANNELS = """
m0 SPUBLISH foo 1
m0 SPUBLISH b 1
m0 SSUBSCRIBE b f
m0 SSUBSCRIBE foo
m0 PUBLISH foo 1
r0 SSUBSCRIBE b
r0 SUNSUBSCRIBE b
r0 SPUBLISH b x
r0 PUBLISH foo 1
"""

MOVING = """
m0 FLUSHALL
m0 SET b 1
m0 SET {b}2 2
m1 CLUSTER SETSLOT 3300 IMPORTING @m0
m0 CLUSTER SETSLOT 3300 MIGRATING @m1
m0 GET b
m0 GET {b}none
m0 MGET b {b}none
m0 MGET {b}n1 {b}none
m0 SET {b}new 1
m0 EXISTS {b}none
m1 GET b
m1 ASKING
m1 GET b
m1 GET b
m1 ASKING
m1 SET {b}new 1
m1 ASKING
m1 MGET b {b}new
m1 ASKING
m1 PING
m1 GET {b}new
m1 ASKING
m1 MULTI
m1 GET {b}new
m1 GET b
m1 EXEC
m1 MULTI
m1 ASKING
m1 GET {b}new
m1 EXEC
m1 GET {b}new
m0 MULTI
m0 GET b
m0 EXEC
m0 EVAL return~redis.call('get','{b}none') 1 b
m0 EVAL return~redis.call('mget','b','{b}none') 1 b
m1 ASKING
m1 EVAL return~redis.call('get','{b}new') 1 {b}new
m1 EVAL return~redis.call('get','{b}new') 1 {b}new
m0 SPUBLISH b x
m1 SPUBLISH b x
m0 CLUSTER SETSLOT 3300 NODE @m1
m0 MIGRATE 127.0.0.1 :m1 b 0 5000
m0 GET b
m0 MIGRATE 127.0.0.1 :m1 ~ 0 5000 KEYS {b}2
m0 CLUSTER COUNTKEYSINSLOT 3300
m1 CLUSTER COUNTKEYSINSLOT 3300
m1 CLUSTER SETSLOT 3300 NODE @m1
m0 CLUSTER SETSLOT 3300 NODE @m1
settle
m0 GET b
m1 GET b
m1 MGET b {b}2 {b}new
m2 GET b
r1 GET b
"""

# Valkey queues such a command, and answers EXEC so.
QUEUED_WHILE_MOVING = """
m1 CLUSTER SETSLOT 5 IMPORTING @m0
m0 CLUSTER SETSLOT 5 MIGRATING @m1
m0 MULTI
m0 GET {bMi}none
m0 EXEC
m0 CLUSTER SETSLOT 5 STABLE
m1 CLUSTER SETSLOT 5 STABLE
"""

# Since 8.4.
MIGRATION = """
m0 FLUSHALL
m1 FLUSHALL
m1 CLUSTER MIGRATION IMPORT 0
m1 CLUSTER MIGRATION IMPORT x 1
m1 CLUSTER MIGRATION IMPORT 5 2
m1 CLUSTER MIGRATION IMPORT 0 99999
m1 CLUSTER MIGRATION IMPORT 6000 6001
m1 CLUSTER MIGRATION IMPORT 5460 5461
m1 CLUSTER MIGRATION IMPORT 0 1 1 2
m1 CLUSTER MIGRATION STATUS
m1 CLUSTER MIGRATION STATUS ID
m1 CLUSTER MIGRATION STATUS ID x
m1 CLUSTER MIGRATION STATUS FOO x
m1 CLUSTER MIGRATION CANCEL ALL
m1 CLUSTER MIGRATION CANCEL ID x
m1 CLUSTER MIGRATION FOO x
r1 CLUSTER MIGRATION IMPORT 0 1
m0 SET {3560} 1
m0 SET {3560}2 2 EXAT 4102444800
m0 XADD {3560}s 1-1 f v
m1 CLUSTER SETSLOT 7 IMPORTING @m0
m1 CLUSTER MIGRATION IMPORT 3000 3001
m1 CLUSTER SETSLOT 7 STABLE
m0 CLUSTER SETSLOT 7 MIGRATING @m1
m0 CLUSTER MIGRATION IMPORT 6000 6001
m0 CLUSTER MIGRATION IMPORT 0 1
m0 CLUSTER MIGRATION IMPORT 0 99999
m0 CLUSTER SETSLOT 7 STABLE
"""

ERRORS = """
m0 CLUSTER SETSLOT 0 MIGRATING x
m0 CLUSTER SETSLOT 0 MIGRATING @r1
m0 CLUSTER SETSLOT 0 IMPORTING @m1
m0 CLUSTER SETSLOT 12182 MIGRATING @m1
m0 CLUSTER SETSLOT 12182 IMPORTING zz
m0 CLUSTER SETSLOT 99999 STABLE
m0 CLUSTER SETSLOT x STABLE
m0 CLUSTER SETSLOT 0 NODE x
m0 CLUSTER SETSLOT 0 NODE @r1
m0 CLUSTER SETSLOT 0 FOO
m0 CLUSTER SETSLOT 0 FOO @m1
m0 CLUSTER SETSLOT 0 STABLE
m0 CLUSTER ADDSLOTS 1
m0 CLUSTER ADDSLOTS x
m0 CLUSTER ADDSLOTS 99999
m0 CLUSTER ADDSLOTS 1 1
m0 CLUSTER DELSLOTS 1 1
m0 CLUSTER ADDSLOTSRANGE 1 2 3
m0 CLUSTER ADDSLOTSRANGE 5 2
m0 CLUSTER ADDSLOTSRANGE 12000 12001
m0 CLUSTER DELSLOTSRANGE 1
m0 CLUSTER REPLICAS x
m0 CLUSTER REPLICAS @r0
m0 CLUSTER COUNT-FAILURE-REPORTS @m1
m0 CLUSTER COUNT-FAILURE-REPORTS x
m0 CLUSTER REPLICATE @m0
m0 CLUSTER REPLICATE x
m0 CLUSTER REPLICATE @m1
m0 CLUSTER REPLICATE @r1
r0 CLUSTER REPLICATE @r1
m0 CLUSTER FORGET x
m0 CLUSTER FORGET @m0
r0 CLUSTER FORGET @m0
m0 CLUSTER FAILOVER
r0 CLUSTER FAILOVER X
m0 CLUSTER SET-CONFIG-EPOCH 5
m0 CLUSTER SET-CONFIG-EPOCH -5
m0 CLUSTER SAVECONFIG
m0 CLUSTER MEET x 1
m0 CLUSTER MEET 127.0.0.1 x
m0 CLUSTER MEET 127.0.0.1 99999
m0 CLUSTER RESET x
r0 CLUSTER SETSLOT 0 STABLE
r0 CLUSTER ADDSLOTS 1
r0 CLUSTER COUNTKEYSINSLOT 0
r0 CLUSTER FLUSHSLOTS
m0 SET f 1
m0 CLUSTER FLUSHSLOTS
"""

DOWN = """
m0 CLUSTER DELSLOTS 0
m0 GET b
m0 GET {06S}
m0 GET foo
m0 MGET f {06S}
m0 SPUBLISH f 1
m0 PING
m0 EVAL return~1 0
m0 EVAL return~redis.call('get','f') 0
m0 EVAL return~redis.call('get','f') 1 f
m0 EVAL return~redis.call('get','{06S}') 0
m0 CONFIG SET cluster-allow-pubsubshard-when-down no
m0 SPUBLISH f 1
m0 CONFIG SET cluster-allow-pubsubshard-when-down yes
m0 CONFIG SET cluster-allow-reads-when-down yes
m0 GET f
m0 SET f 1
m0 EVAL return~redis.call('get','f') 0
m0 EVAL return~redis.call('set','f','1') 0
m0 EVAL return~redis.call('get','f') 1 f
m0 CONFIG SET cluster-allow-reads-when-down no
m0 CLUSTER ADDSLOTS 0
settle
m0 GET {06S}
"""

NAMES = """
m0 CONFIG SET cluster-preferred-endpoint-type hostname
m0 GET foo
m0 CONFIG SET cluster-preferred-endpoint-type unknown-endpoint
m0 GET foo
m0 CONFIG SET cluster-preferred-endpoint-type ip
m0 GET foo
"""

# Words of commands that 9.1 of Valkey answers in another way: its scripts have texts of their own, and a cluster of it
# may have several databases.
VALKEYS_OWN = {"EVAL", "SELECT", "databases", "99999"}


def play(scene: Scene) -> list[str]:
    """What a cluster answers to the whole script."""
    for part in (KEYS, REPLICAS, TRANSACTIONS, SCRIPTS):
        scene.run(part)
    for words in SHEBANGS:
        scene.ask("m0", "EVAL", *words)
    for part in (CHANNELS, ERRORS, DOWN, NAMES, MOVING):
        scene.run(part)
    if scene.kind != "valkey":
        scene.run(QUEUED_WHILE_MOVING)
    return list(scene.seen)


def names(scene: Scene) -> list[object]:
    """How a node names itself and others, by cluster-preferred-endpoint-type."""
    found: list[object] = []
    wire = scene.wires["m0"]
    scene.run("m0 CONFIG SET cluster-announce-hostname a.example.com")
    for kind in ("hostname", "unknown-endpoint", "ip"):
        scene.run(f"m0 CONFIG SET cluster-preferred-endpoint-type {kind}\nm0 GET foo")
        for view in ("SLOTS", "SHARDS"):
            reply = wire.call("CLUSTER", view)
            assert reply.children is not None
            found.append((kind, view, sorted(map(shape, map(scene.normal, reply.children)))))
    scene.run("m0 CONFIG SET cluster-announce-ip 10.1.2.3\nm0 CONFIG SET cluster-announce-port 1234")
    lines = scene.normal(wire.call("CLUSTER", "NODES").value.decode()).splitlines()
    found.append(sorted(map(shape, lines)))
    scene.run("m0 CONFIG SET cluster-announce-ip ~\nm0 CONFIG SET cluster-announce-port 0")
    scene.run("m0 CONFIG SET cluster-announce-hostname ~")
    return found


def migrate(scene: Scene) -> list[str]:
    """What a cluster says of slots that move in one step, and where their keys are then."""
    scene.run(MIGRATION)
    begun = len(scene.seen)
    task = (
        scene.wires["m1"]
        .call("CLUSTER", "MIGRATION", "IMPORT", 3000, 3299, 3301, 3400, 0, 1, 5, 5)
        .value.decode()
    )

    def ended() -> bool:
        return all(
            b"completed" in scene.wires[name].call("CLUSTER", "MIGRATION", "STATUS", "ALL").encode()
            for name in ("m0", "m1")
        )

    until(ended)
    scene.settle()
    scene.run(
        f"m0 CLUSTER MIGRATION STATUS ALL\nm1 CLUSTER MIGRATION STATUS ID {task}\nm2 CLUSTER MIGRATION STATUS ALL"
    )
    scene.run("m0 GET {3560}\nm1 GET {3560}\nm1 EXPIRETIME {3560}2\nm1 XRANGE {3560}s - +\nm2 GET {3560}")
    until(lambda: scene.wires["m0"].call("DBSIZE").plain() == 0)
    lines = [line.replace(task, "TASK") for line in scene.seen[begun:]]
    return [re.sub(r"write_pause_ms\" :\d+", "write_pause_ms", line) for line in lines]


def facts(scene: Scene) -> list[object]:
    """How each node describes the cluster, whatever the order."""
    found: list[object] = []
    for name in ("m0", "r1"):
        for protocol in (2, 3):
            wire = scene.wire(name, protocol)
            for view in ("SLOTS", "SHARDS", "LINKS"):
                reply = wire.call("CLUSTER", view)
                assert reply.children is not None
                found.append((name, protocol, view, sorted(map(shape, map(scene.normal, reply.children)))))
            nodes = scene.normal(wire.call("CLUSTER", "NODES").value.decode())
            found.append(
                (
                    name,
                    protocol,
                    nodes[:4] == "txt:",
                    sorted(map(shape, nodes[nodes.index("@") :].splitlines())),
                )
            )
            replicas = wire.call("CLUSTER", "REPLICAS", scene.ids["m0"]).plain()
            found.append([shape(scene.normal(line.decode())) for line in replicas])
            shard_ids = [
                scene.wires[each].call("CLUSTER", "MYSHARDID").value for each in (name, f"m{name[1]}")
            ]
            found.append(len(set(shard_ids)))
            found.append(
                re.findall(
                    "cluster_(?:state|slots|known|size)[a-z_]*:[a-z0-9]+", str(wire.call("CLUSTER", "INFO"))
                )
            )
            found.append(scene.normal(wire.call("INFO", "cluster").value.decode()).split("\r\n")[:2])
            hello = dict(wire.call("HELLO").plain()) if protocol == 3 else {}
            found.append((hello.get(b"mode"), hello.get(b"role")))
    return found


def shape(line: str) -> str:
    """A description without what differs between two runs: times, offsets, epochs, sizes, the order of nodes."""
    line = re.sub(r"(replication-offset\" :|send-buffer-[a-z]+\" :|create-time\" :)\S+", r"\1N", line)
    line = re.sub(r' \$"id" \$"[0-9a-f]{40}"\]$', "]", line)  # Valkey names the shard, too
    return re.sub(r"(\S+) (?:0|TIME) (?:0|TIME) [0-9]+ (connected|disconnected)", r"\1 - - - \2", line)


def waiters(scene: Scene) -> list[str]:
    """What clients that wait get when a slot moves, and when the cluster goes down."""
    scene.run("m0 SET b 1")
    waiting = {
        "BLPOP {b}list 0": "m0",
        "XREAD BLOCK 0 STREAMS {b}st $": "m0",
        "XREAD BLOCK 0 STREAMS {b}st $ ": "r0",
    }
    wires = []
    for words, name in waiting.items():
        wires.append(scene.wire(name))
        wires[-1].call("READONLY")
        wires[-1].send(*words.split())
        until(lambda name=name: b"blocked_clients:0\r" not in scene.wires[name].call("INFO", "clients").value)
    subscribers = [scene.wire(name, protocol) for name in ("m0", "r0") for protocol in (2, 3)]
    for each in subscribers:
        each.call("SSUBSCRIBE", "{b}channel")
    scene.run("m0 DEL b")
    for name in ("m1", "m0", "m2"):
        scene.ask(name, "CLUSTER", "SETSLOT", 3300, "NODE", "@m1")
    answers = [scene.normal(each.read()) for each in (*wires, *subscribers)]
    scene.settle()
    for name in ("m0", "m1", "m2"):
        scene.ask(name, "CLUSTER", "SETSLOT", 3300, "NODE", "@m0")
    scene.settle()
    blocked = scene.wire("m0")
    blocked.send("BLPOP", "{b}list", 0)
    until(lambda: b"blocked_clients:1\r" in scene.wires["m0"].call("INFO", "clients").value)
    scene.run("m0 CLUSTER DELSLOTS 0")
    answers.append(scene.normal(blocked.read()))
    scene.run("m0 CLUSTER ADDSLOTS 0\nsettle")
    return answers


# What a client has done before a failover, and asks after it; ``>`` only sends, ``<`` only reads.
AT_FAILOVER = """
m0 > BLPOP {b}list 0 | <
m0 > XREAD BLOCK 0 STREAMS {b}st $ | <
m0 > WAIT 5 0 | <
m0 MULTI; SET b 2 | EXEC
m0 MULTI; GET b | EXEC
m0 READONLY; MULTI; GET b | EXEC
m0 WATCH b | MULTI; SET b 3; EXEC
m0 SUBSCRIBE ch; SSUBSCRIBE {b}ch | <; PING
m0 READONLY | GET b; SET b 1
m0 PING | GET b; SET b 1
r0 READONLY; > XREAD BLOCK 0 STREAMS {b}st $ |
r0 READONLY; MULTI; GET b | EXEC
"""
SINCE_7_2 = "r0 SUBSCRIBE ch; SSUBSCRIBE {b}ch | <; PING"


def say(wire: Wire, script: str) -> list[str]:
    """Run the parts of one half of a line above; return what was read."""
    found = []
    for part in filter(None, map(str.strip, script.split(";"))):
        words = part.removeprefix("> ").split()
        if words != ["<"]:
            wire.send(*words)
        if part[0] != ">":
            found.append(str(wire.read()))
    return found


def fail_over(scene: Scene) -> list[str]:
    """What clients get when the replica of their master takes over, and afterwards; the old master leads again then."""
    scene.run("m0 SET b 1")
    lines = AT_FAILOVER.strip().splitlines() + ([] if scene.kind == "redis7" else [SINCE_7_2])
    clients = [(scene.wire(line[:2], protocol), line[3:].split("|")) for protocol in (2, 3) for line in lines]
    for wire, (before, _) in clients:
        say(wire, before)
    take_over(scene, "r0", "m0")
    answers = [f"{before}: {scene.normal(' '.join(say(wire, after)))}" for wire, (before, after) in clients]
    assert not any(wire.pending() for wire, _ in clients)
    take_over(scene, "m0", "r0")
    scene.run("m0 DEL b")
    return answers


def take_over(scene: Scene, replica: str, master: str) -> None:
    """Fail over, and wait until all know and the new replica has all data."""
    assert scene.ask(replica, "CLUSTER", "FAILOVER") == "+OK"
    for name, state in (
        (replica, b"role:master"),
        (master, b"role:slave"),
        (master, b"master_link_status:up"),
    ):
        until(lambda name=name, state=state: state in scene.wires[name].call("INFO", "replication").value)
    scene.settle()


@pytest.mark.parametrize(
    ("real", "ours"),
    [
        ("redis810", "rillet"),
        pytest.param("redis7", "rillet-7.0", marks=pytest.mark.heavy),
        pytest.param("valkey", "rillet", marks=pytest.mark.heavy),
    ],
)
def test_a_cluster_answers_each_command_as_a_cluster_of_that_version(real, ours):
    def everything(scene: Scene) -> list[list]:
        failed_over = fail_over(scene) if real != "valkey" else []  # which redirects clients that wait
        seen = [facts(scene), waiters(scene), play(scene), names(scene), failed_over]
        return [*seen, migrate(scene)] if real == "redis810" else seen

    with Scene(real) as theirs:
        expected = everything(theirs)
    with Scene(ours) as scene:
        scene.kind = real
        given = everything(scene)
    if real == "valkey":
        for each in given, expected:
            each[2] = [line for line in each[2] if not VALKEYS_OWN & set(line.split())]
    for ours_here, theirs_here in zip(given, expected, strict=True):
        assert ours_here == theirs_here
