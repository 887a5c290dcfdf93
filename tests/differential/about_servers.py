"""Words for commands about the server itself: users, settings, clients, channels, functions, payloads; and its reset.

Each list is a pool that the grammar of a command draws from, by the name of the command (or of its container) and of
the argument. What a server numbers by itself stands there as `{id1}` (the client of connection 1) or `{payload3}` (the
fourth payload of `payloads`; `{payload3!}` is spoilt) until the player fills it in.
"""

import hashlib

from support.wire import Wire

Words = list[str]

SCRIPTS = [
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return {KEYS, ARGV}",
    "return redis.pcall('LPUSH', KEYS[1], 'a')",
    "return redis.call('XLEN', KEYS[1])",
    "redis.call('ZADD', KEYS[1], 1, 'a') return redis.error_reply('MY error')",
    "#!lua flags=no-writes\nreturn redis.call('DEL', KEYS[1])",
    "return redis.call('SELECT', 1)",
    "return redis.setresp(3) or redis.call('HGETALL', KEYS[1])",
    "return redis.acl_check_cmd('GET', KEYS[1])",
]
SHAS = [hashlib.sha1(script.encode()).hexdigest() for script in SCRIPTS[:5]]
LIBRARIES = [
    "#!lua name=lib\nredis.register_function('f1', function(keys, args) return redis.call('SET', keys[1], args[1]) end)",
    "#!lua name=lib2\nredis.register_function{function_name='f2', callback=function(keys) return keys end, flags={'no-writes'}}",
    "#!lua name=lib\nredis.register_function('f2', function() return redis.call('PING') end)",
    "#!lua name=lib3\nerror('at load')",
    "#!lua name=lib3\nredis.register_function('f1', function() end) redis.register_function('f3', function() end)",
    "#!lua name=li-b\nreturn 1",
    "#!lua\nreturn 1",
    "#!other name=x\nreturn 1",
    "return 1",
    "",
]
USERS = ["u1", "u1", "u2", "u3", ""]
PASSWORDS = ["pw", "pw", "other", ""]
RULES = [
    "on", "on", "off", ">pw", ">pw", "nopass", "resetpass", "<pw", "<other", "#" + "a" * 64, "!" + "a" * 64, "#short",
    "~*", "~k*", "~s", "%R~h*", "%W~l*", "%RW~z", "%Q~x", "%R~", "~", "allkeys", "resetkeys", "&*", "&ch*", "&ch1",
    "allchannels", "resetchannels", "+@all", "+@all", "-@all", "+@read", "-@write", "+@nosuch", "-@dangerous", "+get",
    "-get", "+nosuch", "+config|get", "-config", "-config|set", "+client", "-client|kill", "+client|nosuch", "+select|0",
    "allcommands", "nocommands", "reset", "clearselectors", "(~l* +@list)", "(+get ~k)", "(%R~h +hget", "()", "+@read|x",
    "sanitize-payload", "skip-sanitize-payload", "+acl", "+", "-", "x", "",
]  # fmt: skip
COMMANDS = "GET set XADD XREADGROUP config client|kill EVAL MSET nosuch sort ZADD".split()
CATEGORIES = ["read", "write", "stream", "dangerous", "nosuch", "hash", ""]
CHANNELS = ["ch1", "ch1", "ch2", "other", "u:1", ""]
CHANNEL_PATTERNS = ["ch*", "*", "c[a-h]1", "", "u:?"]
# Settings with a harmless effect, and some that cannot be changed; `RESET` puts these back.
SETTINGS = {
    "hash-max-listpack-entries": ["512", "2", "0", "-1", "4294967296"], "hash-max-listpack-value": ["64", "3"],
    "list-max-listpack-size": ["-2", "2", "-5", "-6", "0"], "list-compress-depth": ["0", "1"],
    "set-max-intset-entries": ["512", "1"], "set-max-listpack-entries": ["128", "2"],
    "set-max-listpack-value": ["64", "2"], "zset-max-listpack-entries": ["128", "2", "0"],
    "zset-max-ziplist-value": ["64", "2"], "hll-sparse-max-bytes": ["3000", "20"],
    "stream-node-max-bytes": ["4096", "0", "1kb"], "slowlog-max-len": ["128", "0", "-1"],
    "latency-monitor-threshold": ["0", "100000"], "lazyfree-lazy-user-del": ["yes", "no", "maybe"],
    "maxmemory-samples": ["5", "65", "0"], "maxmemory-policy": ["noeviction", "allkeys-lru", "allkeys-lfu", "x"],
    "proto-max-bulk-len": ["512mb", "1mb", "1kb", "1gb"],
    "client-output-buffer-limit": ["normal 0 0 0", "pubsub 32mb 8mb 60", "slave 1 2", "x 1 1 1", "normal -1 0 0"],
    "save": ["", "900 1", "x", "1 2 3"], "acllog-max-len": ["128", "2", "-1"],
    "tracking-table-max-keys": ["1000000", "2"], "min-replicas-max-lag": ["10", "x"],
    "repl-backlog-size": ["1mb", "2mb", "16kb"], "repl-ping-replica-period": ["10", "0"],
    "loglevel": ["notice", "warning", "loud"], "lua-time-limit": ["5000", "6000"], "busy-reply-threshold": ["5000", "0"],
    "close-on-oom": ["1"], "oom-score-adj-values": ["0 200 800", "1 2", "3 2 1"], "databases": ["16"],
    "daemonize": ["no"], "bind-source-addr": [""], "no-such-setting": ["1"], "dynamic-hz": ["yes", "no"],
    "hz": ["10", "501", "0"], "lfu-log-factor": ["10", "0"], "activerehashing": ["yes", "1"],
    "jemalloc-bg-thread": ["yes"], "client-query-buffer-limit": ["1gb", "1mb", "10"], "aclfile": ["", "x"],
    "requirepass": [""], "enable-debug-command": ["yes"], "set-proc-title": ["yes"],
    "proc-title-template": ["{title} {listen-addr} {server-mode}", "{nosuch}"],
    "shutdown-on-sigterm": ["default", "save now", "x"], "tls-port": ["0"], "port": ["x"], "unixsocketperm": ["0"],
}  # fmt: skip
# What CONFIG GET may name: the same on every server.
GOT = [
    "hash-max-*", "*listpack*", "*ziplist*", "slowlog-max-len", "list-*", "save", "maxmemory-p*", "lazyfree-lazy-user-[a-d]*",
    "client-output-*", "acllog-max-len", "x*x", "notify-keyspace-events", "lua-time-limit", "busy-*", "HASH-MAX-LISTPACK-VALUE",
    "oom-score-adj*", "no-such", "", "proc-title-template", "shutdown-on-*", "repl-backlog-size",
]  # fmt: skip

POOLS: dict[str, dict[str, list[str]]] = {
    "acl": {"username": USERS, "rule": RULES, "category": CATEGORIES, "command": COMMANDS},
    "auth": {"username": ["u1", "u1", "u2", "u3", "default"], "password": PASSWORDS},
    "hello": {
        "protover": ["2", "3", "3", "4", "x"],
        "username": ["u1", "default"],
        "password": PASSWORDS,
        "clientname": ["me", "a b", ""],
    },
    "config|get": {"parameter": GOT},
    "client": {
        "client-id": ["{id0}", "{id1}", "{id2}", "99999999", "0", "-1", "x"], "connection-name": ["me", "you", "a b", ""],
        "libname": ["lib", "a b", ""], "libver": ["1.0", ""], "prefix": ["k", "h", "ke", ""],
        "username": ["u1", "u3", "default"], "addr": ["127.0.0.1:1", "x"], "laddr": ["127.0.0.1:1", "x"],
        "maxage": ["1000000", "x"], "old-format": ["127.0.0.1:1", "x"],
    },
    "publish": {"channel": CHANNELS},
    "spublish": {"shardchannel": CHANNELS},
    "subscribe": {"channel": CHANNELS},
    "unsubscribe": {"channel": CHANNELS},
    "psubscribe": {"pattern": CHANNEL_PATTERNS},
    "punsubscribe": {"pattern": CHANNEL_PATTERNS},
    "ssubscribe": {"shardchannel": CHANNELS},
    "sunsubscribe": {"shardchannel": CHANNELS},
    "pubsub": {"pattern": CHANNEL_PATTERNS, "channel": CHANNELS, "shardchannel": CHANNELS},
    "select": {"index": ["0", "0", "1", "1", "2", "15", "16", "-1", "x"]},
    "move": {"db": ["1", "1", "0", "16", "x"]},
    "swapdb": {"index1": ["0", "1", "x"], "index2": ["0", "1", "16"]},
    "restore": {
        "ttl": ["0", "0", "100000", "4102444800000", "-1", "x"],
        "serialized-value": [f"{{payload{at}}}" for at in range(20)] + ["{payload1!}", "{payload7!}", "x", ""],
        "seconds": ["0", "1000", "-1"],
        "frequency": ["0", "200", "256"],
    },
    "script": {"script": SCRIPTS, "sha1": [*SHAS, "x"]},
    "eval": {"script": SCRIPTS},
    "evalsha": {"sha1": [*SHAS, "f" * 40, "x"]},
    "evalsha_ro": {"sha1": SHAS},
    "fcall": {"function": ["f1", "f1", "f2", "f3", "nosuch"]},
    "fcall_ro": {"function": ["f1", "f2", "f2", "f3"]},
    "function": {
        "function-code": LIBRARIES,
        "library-name": ["lib", "lib2", "nosuch"],
        "library-name-pattern": ["lib*", "*2", "nosuch"],
        "serialized-value": ["{functions0}", "{functions1}", "{functions0!}", "x", ""],
    },
    "command": {"command": COMMANDS, "command-name": [*COMMANDS, "xadd", "acl|setuser"]},
    "latency": {"event": ["command", "fork", "x"]},
    "cluster": {"slot": ["0", "16384", "x"], "key": ["k", "{a}b"]},
    "himport": {"fieldset-name": ["fs", "fs", "fs2"], "field": ["f", "g", "n", "f"]},
    "module": {"path": ["/no/such.so"], "name": ["nosuch"]},
    "object": {},
}  # fmt: skip

DEBUG: list[Words] = [
    ["DEBUG", "RELOAD"],
    ["DEBUG", "RELOAD", "MERGE"],
    ["DEBUG", "SLEEP", "0"],
    ["DEBUG", "ERROR", "MY words"],
    ["DEBUG", "STRINGMATCH-LEN", "10", "a*b"],
    ["DEBUG", "LOG", "a line"],
    *(
        ["DEBUG", "PROTOCOL", kind]
        for kind in ("string", "integer", "double", "null", "array", "set", "map", "attrib", "verbatim", "true", "bignum", "x")
    ),
    ["DEBUG", "nosuch"],
    ["DEBUG"],
]  # fmt: skip

RESET: list[Words] = [
    ["SCRIPT", "FLUSH"], ["FUNCTION", "FLUSH"], ["ACL", "LOG", "RESET"], ["SLOWLOG", "RESET"], ["CONFIG", "RESETSTAT"],
]  # fmt: skip


def reset(wire: Wire) -> None:
    """Put back what a run may have changed and FLUSHALL leaves, but for settings."""
    *_, users = wire.calls([*RESET, ["ACL", "USERS"]])
    wire.call("ACL", "DELUSER", *(name for name in users.plain() if name != b"default"), "u1")


def changed_settings(wire: Wire) -> list[list[bytes]]:
    """CONFIG SET commands that put every setting that a run may change back to what it is now."""
    saved = []
    for name in SETTINGS:
        pair = wire.call("CONFIG", "GET", name).plain()
        if pair and wire.call("CONFIG", "SET", *pair).value == b"OK":
            saved.append([b"CONFIG", b"SET", *pair])
    return saved


_VALUES = [
    "SET s hello", "SET n 12", "RPUSH l a b c", "SADD is 1 2 3", "SADD st a b", "HSET h f v g 1", "HSET hx f v g 1",
    "HPEXPIREAT hx 33177117420123 FIELDS 1 f", "ZADD z 1 a 2.5 b", "XADD x 1-0 f v", "XADD x 2-0 f v",
    "XGROUP CREATE x g 0", "XREADGROUP GROUP g alice COUNT 1 STREAMS x >", "PFADD p a b", f"SET long {'y' * 200}",
]  # fmt: skip
_KEYS = ["s", "n", "l", "is", "st", "h", "hx", "z", "x", "p", "long"]


def payloads(wire: Wire) -> dict[str, list[bytes]]:
    """What DUMP and FUNCTION DUMP of a server give for values of every type, by a name without its number."""
    for line in _VALUES:
        wire.call(*line.split())
    values = [wire.call("DUMP", key).plain() for key in _KEYS]
    wire.call("FUNCTION", "LOAD", LIBRARIES[0])
    functions = wire.call("FUNCTION", "DUMP").plain()
    wire.call("FUNCTION", "FLUSH")
    wire.call("FLUSHALL")
    return {"payload": [value for value in values if value is not None], "functions": [functions]}


def filled(word: str, known: dict[str, bytes]) -> bytes:
    """A word as it is sent: escapes and what only the player knows."""
    if word.startswith("{") and word.rstrip("!").endswith("}"):
        value = known.get(word.strip("{}!"))
        if value is not None:
            return value[:-1] + bytes([value[-1] ^ 1]) if word.endswith("!") else value
    return word.encode().decode("unicode_escape").encode("latin-1")
