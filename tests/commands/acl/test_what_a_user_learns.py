"""What a user with few rights learns all the same: each story is played on Redis 8.10.2 and here, and must read alike.

docs/security/acl.md has a line for each story, by its name. A step is ``client: command``; a client whose name ends in 2
speaks RESP2. ``sees`` reads the messages that have arrived, ``reads`` waits for one, ``~`` does not wait for the reply,
and ``{client}`` is the ID of a client.
"""

import re
import shlex
from pathlib import Path

import pytest
from support.wire import ConnectionClosedError

PAGE = Path(__file__).parents[3] / "docs" / "security" / "acl.md"
LIMITED = "admin: ACL SETUSER lim on nopass resetkeys ~public:* resetchannels +@all"
LOG_IN = f"{LIMITED} / lim: AUTH lim x"
STORIES = {
    "tracking, BCAST": (
        f"{LOG_IN} / lim: CLIENT TRACKING ON BCAST / admin: SET secret:c 1 / lim: sees / "
        "admin: MSET public:a 1 secret:c 2 / lim: sees / admin: DEL secret:c / lim: sees / "
        "admin: EVAL \"redis.call('SET','secret:d',1) return redis.call('SET','public:d',1)\" 2 secret:d public:d / "
        "lim: sees / admin: MULTI / admin: SET secret:a 1 / admin: SET public:a 1 / admin: EXEC / lim: sees"
    ),
    "tracking, prefixes": (
        f"{LOG_IN} / lim: CLIENT TRACKING ON BCAST PREFIX secret: PREFIX public: / admin: SET secret:c 1 / "
        "admin: SET public:c 1 / lim: sees / lim: CLIENT TRACKINGINFO"
    ),
    "tracking, write-only keys": (
        "admin: ACL SETUSER lim on nopass %W~w:* %R~r:* %RW~rw:* +@all / lim: AUTH lim x / "
        "lim: CLIENT TRACKING ON BCAST / admin: MSET w:a 1 r:a 1 rw:a 1 / lim: sees"
    ),
    "tracking, selectors": (
        "admin: ACL SETUSER lim on nopass ~a:* +@all (~b:* +get) (~c:* +set) (%W~d:* +@all) (~e:* -@all) / "
        "lim: AUTH lim x / lim: CLIENT TRACKING ON BCAST / admin: MSET a:a 1 b:a 1 c:a 1 d:a 1 e:a 1 f:a 1 / lim: sees"
    ),
    "tracking, no key at all": (
        "admin: ACL SETUSER lim on nopass +@all / lim: AUTH lim x / lim: CLIENT TRACKING ON BCAST / admin: SET a 1 / "
        "lim: sees / admin: FLUSHALL / lim: sees"
    ),
    "tracking, rights lost, BCAST": (
        "admin: ACL SETUSER lim on nopass ~* +@all / lim: AUTH lim x / lim: CLIENT TRACKING ON BCAST / "
        "admin: SET a 1 / lim: sees / admin: ACL SETUSER lim resetkeys ~public:* / admin: SET a 1 / "
        "admin: SET public:a 1 / lim: sees / admin: ACL SETUSER lim ~a / admin: SET a 1 / lim: sees"
    ),
    "tracking, rights lost, a key that was read": (
        "admin: ACL SETUSER lim on nopass ~* +@all / lim: AUTH lim x / lim: CLIENT TRACKING ON / admin: SET a 1 / "
        "lim: GET a / admin: ACL SETUSER lim resetkeys ~public:* / admin: SET a 1 / lim: sees"
    ),
    "tracking, another user": (
        f"{LIMITED} / lim: CLIENT TRACKING ON BCAST / lim: AUTH lim x / admin: SET a 2 / admin: SET public:a 2 / "
        "lim: sees / lim: AUTH default x / admin: SET a 3 / lim: sees"
    ),
    "tracking, user deleted": (
        f"{LOG_IN} / lim: CLIENT TRACKING ON BCAST / admin: ACL DELUSER lim / admin: SET public:a 1 / lim: sees"
    ),
    "tracking, user off": (
        f"{LOG_IN} / lim: CLIENT TRACKING ON BCAST / admin: ACL SETUSER lim off / admin: SET public:a 1 / "
        "admin: SET a 1 / lim: sees"
    ),
    "tracking, redirected to another": (
        f"{LOG_IN} / lim: CLIENT TRACKING ON BCAST REDIRECT {{other}} / admin: SET a 2 / admin: SET public:a 2 / "
        "other: sees / lim: sees"
    ),
    "tracking, redirected to a limited user": (
        f"{LOG_IN} / other: CLIENT TRACKING ON BCAST REDIRECT {{lim}} / admin: SET a 2 / lim: sees / other: sees"
    ),
    "tracking, redirected in RESP2": (
        f"{LIMITED} / lim2: AUTH lim x / lim2: CLIENT TRACKING ON BCAST REDIRECT {{listener2}} / "
        "listener2: SUBSCRIBE __redis__:invalidate / admin: SET a 2 / admin: SET public:a 2 / listener2: sees"
    ),
    "tracking, starting after the change": (
        f"{LIMITED} / other: CLIENT TRACKING ON BCAST / lim: MULTI / lim: SET secret 1 / lim: AUTH lim x / "
        "lim: CLIENT TRACKING ON BCAST / lim: EXEC / lim: sees / other: sees"
    ),
    "names of keys by KEYS, SCAN, RANDOMKEY, DBSIZE": (
        f"admin: SET secret:k v / {LOG_IN} / lim: KEYS * / lim: SCAN 0 COUNT 100 / lim: DBSIZE / lim: RANDOMKEY / "
        "lim: SCAN 0 MATCH secret* COUNT 100 TYPE string / admin: ACL SETUSER lim -@dangerous -@keyspace / "
        "lim: KEYS * / lim: SCAN 0 / lim: RANDOMKEY"
    ),
    "values": (
        f"admin: SET secret:k v / {LOG_IN} / lim: OBJECT ENCODING secret:k / lim: OBJECT FREQ secret:k / "
        "lim: OBJECT REFCOUNT secret:k / lim: OBJECT IDLETIME secret:k / lim: MEMORY USAGE secret:k / "
        "lim: DUMP secret:k / lim: TYPE secret:k / lim: EXISTS secret:k / lim: TTL secret:k / lim: TOUCH secret:k / "
        "lim: WATCH secret:k / lim: STRLEN secret:k / lim: EXPIRETIME secret:k / lim: DEBUG OBJECT secret:k / "
        "lim: XINFO STREAM secret:k / lim: DIGEST secret:k"
    ),
    "SORT BY and GET": (
        f"admin: RPUSH public:l 1 2 / admin: MSET secret:1 a secret:2 b / {LOG_IN} / lim: SORT public:l BY secret:* / "
        "lim: SORT public:l GET secret:* / lim: SORT public:l BY nosort GET # / lim: SORT public:l GET public:* / "
        "lim: SORT_RO public:l GET secret:* / lim: SORT public:l STORE secret:x / "
        "lim: SORT public:l BY public:*->f GET # / admin: ACL SETUSER lim resetkeys %R~* %W~public:* / "
        "lim: SORT public:l BY nosort GET secret:* / lim: SORT public:l STORE secret:x / "
        "admin: ACL SETUSER lim resetkeys %W~* %R~public:* / lim: SORT public:l BY secret:*"
    ),
    "keyspace events": (
        f"{LOG_IN} / admin: CONFIG SET notify-keyspace-events KEA / lim: SUBSCRIBE __keyevent@0__:set / "
        "lim: PSUBSCRIBE __key* / admin: ACL SETUSER lim &__keyevent* / lim: SUBSCRIBE __keyevent@0__:set / "
        "admin: SET secret:k v / lim: sees / lim: PSUBSCRIBE __keyevent@0*"
    ),
    "channels after rights were lost": (
        f"{LOG_IN} / admin: ACL SETUSER lim &a* / lim: SUBSCRIBE a / admin: ACL SETUSER lim resetchannels &a &b / "
        "admin: PUBLISH a 1 / lim: sees / admin: ACL SETUSER lim off / admin: PUBLISH a 1 / lim: sees / "
        "admin: ACL SETUSER lim resetchannels &b / lim: sees"
    ),
    "channels of an earlier user": (
        f"{LIMITED} / lim: SUBSCRIBE a / lim: AUTH lim x / admin: ACL SETUSER lim &b / admin: PUBLISH a 1 / "
        "lim: sees / admin: ACL SETUSER another on &x / admin: PUBLISH a 1 / lim: sees / "
        "admin: ACL SETUSER lim resetchannels / lim: sees"
    ),
    "names of channels": (
        f"admin: SUBSCRIBE secret:chan / {LOG_IN.replace('admin', 'other')} / lim: PUBSUB CHANNELS / "
        "lim: PUBSUB NUMSUB secret:chan / lim: PUBSUB SHARDCHANNELS / lim: PUBLISH secret:chan x / lim: SPUBLISH x y"
    ),
    "MONITOR": (
        f"{LOG_IN} / admin: ACL SETUSER lim -@all +monitor / lim: MONITOR / admin: SET secret:k v / lim: reads / "
        "admin: ACL SETUSER lim -monitor / admin: SET secret:k w / lim: reads / admin: ACL DELUSER lim / "
        "lim: reads"
    ),
    "a blocked client whose rights are lost": (
        f"{LOG_IN} / lim: ~BLPOP public:l 0 / admin: ACL SETUSER lim resetkeys / admin: RPUSH public:l a / "
        "lim: reads / admin: LLEN public:l"
    ),
    "a blocked client that lost one of its keys": (
        f"{LOG_IN} / lim: ~BLPOP public:l public:m 0 / admin: ACL SETUSER lim resetkeys ~public:m / "
        "admin: RPUSH public:m a / lim: reads / admin: LLEN public:m"
    ),
    "a blocked client that lost its command": (
        f"{LOG_IN} / lim: ~BLPOP public:l 0 / admin: ACL SETUSER lim -blpop / admin: RPUSH public:l a / lim: reads / "
        "admin: LLEN public:l"
    ),
    "a blocked client whose user is off": (
        f"{LOG_IN} / lim: ~BLPOP public:l 0 / admin: ACL SETUSER lim off / admin: RPUSH public:l a / lim: reads"
    ),
    "a blocked client whose user is deleted": (
        f"{LOG_IN} / lim: ~BLPOP public:l 0 / admin: ACL DELUSER lim / admin: RPUSH public:l a / lim: reads / "
        "admin: LLEN public:l"
    ),
    "a blocked reader of a group whose rights are lost": (
        f"{LOG_IN} / admin: XGROUP CREATE public:s g $ MKSTREAM / "
        "lim: ~XREADGROUP GROUP g c BLOCK 0 STREAMS public:s > / admin: ACL SETUSER lim resetkeys / "
        "admin: XADD public:s 1-1 a b / lim: reads / admin: XPENDING public:s g"
    ),
    "a blocked reader of a group that goes": (
        f"{LOG_IN} / admin: XGROUP CREATE public:s g $ MKSTREAM / "
        "lim: ~XREADGROUP GROUP g c BLOCK 0 STREAMS public:s > / admin: ACL SETUSER lim resetkeys / "
        "admin: DEL public:s / lim: reads"
    ),
    "a transaction whose rights are lost": (
        f"{LOG_IN} / lim: MULTI / lim: GET public:a / lim: SET public:a 1 / admin: ACL SETUSER lim resetkeys / "
        "lim: EXEC / admin: GET public:a"
    ),
    "a watched key that the user may no longer read": (
        f"{LOG_IN} / lim: WATCH public:a / admin: ACL SETUSER lim resetkeys ~b / admin: SET public:a 1 / lim: MULTI / "
        "lim: SET b 1 / lim: EXEC"
    ),
    "scripts": (
        f"admin: SET secret:k v / {LOG_IN} / lim: EVAL \"return redis.call('GET','secret:k')\" 0 / "
        "lim: EVAL \"return redis.pcall('GET','secret:k')\" 0 / lim: EVAL \"return redis.call('GET',KEYS[1])\" 1 secret:k / "
        "lim: EVAL \"return tostring(redis.acl_check_cmd('GET','secret:k'))\" 0 / "
        "lim: EVAL \"return redis.call('KEYS','*')\" 0"
    ),
    "error texts": (
        f"admin: SET secret:k v / {LOG_IN} / lim: GET secret:k / lim: MGET public:a secret:b / lim: SET secret:k / "
        "lim: LPUSH secret:k a / lim: LPUSH secret:none a / lim: XREADGROUP GROUP g c STREAMS secret:k > / "
        "lim: XGROUP CREATE secret:k g $ / lim: EVALSHA abc 1 secret:k / lim: FCALL f 1 secret:k"
    ),
    "COMMAND GETKEYS": (
        f"{LOG_IN} / lim: COMMAND GETKEYS GET secret:k / lim: COMMAND GETKEYSANDFLAGS GET secret:k"
    ),
    "the users": (
        f"{LOG_IN} / lim: ACL LIST / lim: ACL USERS / lim: ACL GETUSER default / lim: ACL DRYRUN default GET secret:k / "
        "admin: ACL SETUSER lim -@dangerous / lim: ACL LIST / lim: ACL USERS / lim: ACL GETUSER default / "
        "lim: ACL DRYRUN default GET x / lim: ACL LOG / lim: ACL WHOAMI"
    ),
    "records of other clients": (
        f"{LOG_IN} / admin: ACL SETUSER lim -@dangerous -@admin / lim: SLOWLOG GET / lim: CLIENT LIST / lim: MONITOR / "
        "lim: ACL LOG / lim: LATENCY LATEST / lim: DEBUG JMAP / lim: INFO keyspace / lim: CONFIG GET port / "
        "lim: PSYNC ? -1 / lim: SYNC / lim: MIGRATE h 1 k 0 1"
    ),
    "write-only keys": (
        f"admin: SET secret:k v / admin: RPUSH secret:l a / {LIMITED} resetkeys %W~* / lim: AUTH lim x / "
        "lim: GET secret:k / lim: SET secret:k x GET / lim: GETSET secret:k x / lim: GETDEL secret:k / "
        "lim: GETEX secret:k / lim: INCR secret:n / lim: LPOP secret:l / lim: LMOVE secret:l secret:m LEFT LEFT / "
        "lim: SPOP secret:s / lim: COPY secret:k secret:k2 / lim: RENAME secret:k secret:k2 / lim: SETBIT secret:k 1 1 / "
        "lim: BITFIELD secret:k SET u8 0 1 / lim: BITFIELD secret:k GET u8 0 / lim: SORT secret:l STORE secret:m / "
        "lim: SET secret:k v IFEQ w / lim: SETNX secret:k v / lim: DELEX secret:k IFEQ w / lim: LPUSHX secret:l a / "
        "lim: APPEND secret:k x / lim: HINCRBY secret:h f 1 / lim: ZINCRBY secret:z 1 m / lim: ZADD secret:z INCR 1 m / "
        "lim: EXISTS secret:k / lim: XADD secret:st 1-1 a b / lim: XTRIM secret:st MAXLEN 0 / "
        "lim: EVAL return 1 1 secret:k / lim: HGETDEL secret:h FIELDS 1 f / lim: SINTERSTORE secret:q secret:s"
    ),
    "read-only keys": (
        f"admin: SET secret:k v / admin: RPUSH secret:l a / {LIMITED} resetkeys %R~* / lim: AUTH lim x / "
        "lim: GET secret:k / lim: GETEX secret:k / lim: TOUCH secret:k / lim: WATCH secret:k / "
        "lim: COPY secret:k secret:k3 / lim: PFCOUNT secret:x / lim: XREAD STREAMS secret:s 0 / "
        "lim: XREADGROUP GROUP g c STREAMS secret:s > / lim: XPENDING secret:s g / lim: SET secret:k v / "
        "lim: BITFIELD secret:k GET u8 0 / lim: EVAL return 1 1 secret:k / lim: EVAL_RO return 1 1 secret:k / "
        "lim: SORT secret:l ALPHA / lim: SORT secret:l ALPHA STORE secret:m"
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_limited_user_learns_what_redis_lets_it_learn_and_no_more(story, running):
    assert played(running("rillet"), STORIES[story]) == played(running("redis810"), STORIES[story])


def test_the_page_has_a_line_for_each_story():
    lines = PAGE.read_text().splitlines()
    rows = {line.split("|")[1].strip() for line in lines if line.startswith("| ")}
    assert set(STORIES) <= rows


def test_a_change_is_told_by_the_rights_before_the_transaction_takes_them(running):
    story = (
        "admin: ACL SETUSER lim on nopass ~k +@all / lim: AUTH lim x / lim: CLIENT TRACKING ON BCAST / "
        "other: CLIENT TRACKING ON BCAST / admin: MULTI / admin: SET k 1 / admin: ACL SETUSER lim resetkeys / "
        "admin: EXEC / lim: sees / other: sees"
    )
    seen = played(running("rillet"), story)
    assert seen == played(running("redis810"), story)
    assert len([line for line in seen if "invalidate" in line]) == 2


def test_before_8_10_no_names_are_sent_either(running):
    seen = played(running("rillet-7.0"), STORIES["tracking, BCAST"])
    assert not [line for line in seen if line.startswith("lim") and "secret" in line]


class Player:
    """The clients of one story, and the lines of what they were sent."""

    def __init__(self, process):
        self.process = process
        self.wires = {}
        self.ids = {}
        self.lines = []

    def wire(self, name):
        if name not in self.wires:
            self.wires[name] = self.process.wire(2 if name.endswith("2") else 3)
            self.ids[name] = self.wires[name].call("CLIENT", "ID").value.decode()
        return self.wires[name]

    def note(self, what, node):
        text = re.sub(r"\+\d+\.\d+ \[(\d+) [^]]+\]", r"+TIME [\1 ADDRESS]", str(node))
        self.lines.append(f"{what} {text}")

    def step(self, text):
        who, command = text.split(": ", 1)
        wire = self.wire(who)
        if command == "reads":
            self.note(f"{who}:", wire.read())
        elif command == "sees":
            wire.send("PING", "is this all?")
            while b"is this all?" not in (node := wire.read()).encode():
                self.note(f"{who}:", node)
        else:
            words = re.sub(r"\{(\w+)\}", lambda found: (self.wire(found[1]), self.ids[found[1]])[1], command)
            wire.send(*shlex.split(words.removeprefix("~")))
            if not words.startswith("~"):
                self.note(text, wire.read())


def played(process, story):
    """The lines of a story; a server that another story used is empty again and has its users."""
    with process.wire() as wire:
        for words in ("FLUSHALL", "ACL LOG RESET", "CONFIG SET notify-keyspace-events ''"):
            wire.call(*shlex.split(words))
        for user in wire.call("ACL", "USERS").plain():
            if user != b"default":
                wire.call("ACL", "DELUSER", user)
    player = Player(process)
    try:
        for text in story.split(" / "):
            try:
                player.step(text)
            except (ConnectionClosedError, ConnectionError):
                player.lines.append(f"{text.split(':')[0]}: closed")
    finally:
        for wire in player.wires.values():
            wire.close()
    return player.lines
