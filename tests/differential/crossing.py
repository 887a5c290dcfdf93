"""Random stories that cross features: lines of several themes and random commands, on connections of both protocols.

A line is a pattern: `<name>` is a word of a pool, `[a b]` may be left out, `(a|b)` is one of them. A story takes some
themes, so that their features meet; the same seed makes the same story.
"""

import random
import re

from differential.about_servers import LIBRARIES, RULES, SCRIPTS
from differential.anything import BEGINNING, LATER_MS, LOOKS, Maker, Run, Words, _may_be_queued, lines_of

CONNECTIONS = 4
# Connections of their own look at the end, and hear of all events; one is to a master beside the server.
LOOKING, LISTENING, BESIDE = CONNECTIONS, CONNECTIONS + 1, CONNECTIONS + 2
MASTER = "{master}"  # its port
SOON = "{soon}"  # as the player knows it
SHORT = "{short}"  # a timeout in milliseconds, whose end the player waits for; in seconds below
SHORT_SECONDS = "{short_seconds}"

STRINGS, LISTS, ZSETS, STREAMS = ["k", "k2", "n"], ["l", "l2", "l9"], ["z", "z2", "z9"], ["s", "s2", "s9"]
HASHES, SETS = ["h", "h2"], ["t", "t2"]
KEYS = STRINGS + LISTS + ZSETS + STREAMS + HASHES + SETS
POOLS: dict[str, list[str]] = {
    "str": STRINGS,
    "list": LISTS,
    "zset": ZSETS,
    "stream": STREAMS,
    "hash": HASHES,
    "set": SETS,
    "key": KEYS,
    "v": ["v", "w", "a", "b", "1"],
    "g": ["g", "g", "g2"],
    "c": ["alice", "bob"],
    "id": [f"{{id{number}}}" for number in range(CONNECTIONS)],
    "ch": ["ch1", "ch2", "k"],
    "pattern": ["ch*", "*1", "__key*__:*", "__keyevent@0__:*", "__keyspace@1__:k"],
    "soon": [SOON],
    "later": [LATER_MS],
    "script": [
        *SCRIPTS,
        "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])",
        "redis.call('RPUSH', 'l9', 'a', 'b') return redis.call('LLEN', 'l9')",
        "return redis.call('XADD', 's9', '*', 'f', 'v') and 1",
        "redis.call('PUBLISH', 'ch1', 'm') return redis.call('GET', KEYS[1])",
        "redis.set_repl(redis.REPL_NONE) return redis.call('SET', KEYS[1], ARGV[1])",
        "return redis.call('DEL', KEYS[1], 'l9', 's9')",
        "return redis.pcall('BLPOP', 'l9', 0)",
        "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
        "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], 'v')",
        "#!lua flags=allow-stale,no-writes\nreturn 1",
        "return redis.call('EXPIRE', KEYS[1], 0)",
    ],
    "acl": [
        "return redis.acl_check_cmd('GET', KEYS[1])",
        "return redis.acl_check_cmd('SET', KEYS[1], ARGV[1])",
        "return redis.acl_check_cmd('PUBLISH', 'ch1', 'm')",
        "return redis.pcall('SET', KEYS[1], ARGV[1])['err'] or 1",
        "redis.setresp(3) return redis.call('GET', KEYS[1])",
        "return {redis.pcall('GET', KEYS[1]), redis.pcall('DEL', KEYS[1])}",
    ],
    "library": LIBRARIES[:3],
    "rule": [rule for rule in RULES if " " not in rule],
    "policy": ["noeviction", "allkeys-lru", "volatile-lru", "allkeys-lfu", "volatile-lfu", "allkeys-lrm"],
    "payload": [f"{{payload{at}}}" for at in range(20)],
    "short": [SHORT],
    "seconds": [SHORT_SECONDS],
    "password": ["pw", "pw", ""],
    # The other policies leave a key or not, as their pools of candidates of before say.
    "evicting": ["allkeys-random", "volatile-random"],
}

WRITES = """
SET <str> <v>; INCR n; APPEND <str> <v>; RPUSH <list> <v> [<v>]; LPUSH <list> <v>; LPOP <list>; ZADD <zset> 1 <v>;
ZREM <zset> <v>; XADD <stream> * f v; XADD <stream> * f v; HSET <hash> f <v>; SADD <set> <v>; SREM <set> <v>; DEL <key>;
UNLINK <key> [<key>]; RENAME <key> <key>; EXPIRE <key> 0; PERSIST <key>; COPY <key> <key> [REPLACE]; MSET k 1 k2 2; FLUSHALL;
GET <str>; LRANGE <list> 0 -1; HGETALL <hash>; TYPE <key>
"""

# By name: how a story begins, and its lines.
THEMES: dict[str, tuple[str, str]] = {
    "blocking": ("DEL l9 z9 s9", """
        BLPOP <list> [<list>] 0; BRPOP l9 0; BLMOVE <list> <list> (LEFT|RIGHT) (LEFT|RIGHT) 0; BRPOPLPUSH <list> <list> 0;
        BLMPOP 0 2 <list> <list> (LEFT|RIGHT) [COUNT 2]; BZPOPMIN <zset> [<zset>] 0; BZPOPMAX z9 0;
        BZMPOP 0 1 <zset> (MIN|MAX) [COUNT 2]; XREAD [COUNT 1] BLOCK 0 STREAMS <stream> ($|0|1-0|+);
        XREADGROUP GROUP <g> <c> [COUNT 1] BLOCK 0 [NOACK] STREAMS <stream> >; XREAD BLOCK 0 STREAMS s s9 $ $;
        BLPOP l9 0; BLMOVE l9 l9 LEFT RIGHT 0; BLMOVE l9 l2 LEFT RIGHT 0; BLPOP l9 1000;
        RPUSH l9 <v> [<v>]; LPUSH l9 a b c; ZADD z9 1 a [2 b]; XADD s9 * f v; XGROUP CREATE <stream> <g> ($|0) MKSTREAM;
        XGROUP DESTROY <stream> <g>; XGROUP SETID <stream> <g> ($|0); LMOVE <list> <list> LEFT RIGHT; SWAPDB 0 1; SELECT (0|1);
        MOVE <key> 1; CLIENT UNBLOCK <id> [(TIMEOUT|ERROR)]; SORT <list> ALPHA STORE <list>; RENAME <list> l9; RENAME <zset> z9;
        RENAME <stream> <stream>; COPY <list> l9 [REPLACE]; ZUNIONSTORE z9 1 <zset>; SET (l9|z9|s9) v; RESTORE l9 0 <payload> REPLACE;
        DEL (l9|z9|s9); SORT l STORE l9; GEOADD z9 1 1 a; RPOPLPUSH <list> l9; LINSERT l9 BEFORE a b; EXPIRE (l9|s9) 0
    """),
    "transactions": ("", """
        MULTI; MULTI; MULTI; EXEC; EXEC; EXEC; DISCARD; WATCH <key> [<key>]; WATCH <key>; UNWATCH; NOSUCH; SET k; RPUSH l9 a;
        BLPOP l9 0; XADD s9 * f v; SWAPDB 0 1; EVAL <script> 1 <str> <v>; PUBLISH ch1 m; SELECT (0|1)
    """),
    "scripts": ("FUNCTION LOAD <library>", """
        EVAL <script> 1 <key> <v>; EVAL <script> 1 <str> <v>; EVAL_RO <script> 1 <str> <v>; FUNCTION LOAD [REPLACE] <library>;
        FCALL (f1|f2) 1 <key> <v>; FCALL_RO (f1|f2) 1 <key>; SCRIPT FLUSH; FUNCTION DELETE lib; SCRIPT LOAD <script>
    """),
    "pauses": ("", """
        CLIENT PAUSE 100000 WRITE; CLIENT PAUSE 100000 WRITE; CLIENT UNPAUSE; CLIENT UNPAUSE; CLIENT UNPAUSE;
        CLIENT UNBLOCK <id>; PUBLISH ch1 m; EVAL <script> 1 <str> <v>; SET <str> v PX <soon>; PFCOUNT p; CLIENT KILL ID <id>
    """),
    "pauses of all": ("", "CLIENT PAUSE 3 ALL; CLIENT UNPAUSE; SET <str> v; BLPOP l9 0; RPUSH l9 a; PING; CLIENT UNBLOCK <id>"),
    "clients": ("", """
        CLIENT KILL ID <id> [SKIPME no]; CLIENT REPLY (ON|OFF|SKIP); CLIENT REPLY ON; CLIENT NO-TOUCH (ON|OFF);
        CLIENT NO-EVICT (ON|OFF); CLIENT SETNAME <v>; CLIENT LIST; CLIENT INFO; RESET; QUIT; HELLO (2|3) [SETNAME <v>];
        CLIENT UNBLOCK <id> [ERROR]; CLIENT LIST ID <id>; CLIENT GETNAME; PING; ECHO <v>; CLIENT KILL TYPE pubsub
    """),
    "tracking": ("", """
        CLIENT TRACKING ON [REDIRECT <id>] [BCAST] [PREFIX (k|l|h)] [NOLOOP]; CLIENT TRACKING ON BCAST [PREFIX k PREFIX l] [NOLOOP];
        CLIENT TRACKING ON (OPTIN|OPTOUT) [NOLOOP] [REDIRECT <id>]; CLIENT TRACKING ON [NOLOOP]; CLIENT TRACKING ON [REDIRECT <id>];
        CLIENT TRACKING OFF; CLIENT CACHING (yes|no); CLIENT TRACKINGINFO; CLIENT GETREDIR; GET <str>; MGET k k2 n;
        HGETALL <hash>; LRANGE <list> 0 -1; XRANGE <stream> - +; GET <str>; SET <str> <v>; SUBSCRIBE __redis__:invalidate;
        EVAL <script> 1 <str> <v>; CONFIG SET tracking-table-max-keys 1000000; FLUSHDB; FLUSHALL; SWAPDB 0 1
    """),
    "channels": ("", """
        SUBSCRIBE <ch> [<ch>]; PSUBSCRIBE <pattern>; SSUBSCRIBE <ch>; UNSUBSCRIBE <ch>; PUNSUBSCRIBE <pattern>; SUNSUBSCRIBE <ch>;
        PUBLISH <ch> m; SPUBLISH <ch> m; PUBLISH <ch> <v>; PUBSUB NUMSUB ch1 ch2; PUBSUB NUMPAT; PUBSUB CHANNELS; PUBSUB SHARDCHANNELS
    """),
    "events": ("CONFIG SET notify-keyspace-events KEAn", """
        CONFIG SET notify-keyspace-events (KEAn|KEA|Kg$|Elzx|Et|); PSUBSCRIBE __key*__:*; PUNSUBSCRIBE <pattern>; EXPIRE <key> 0;
        SUBSCRIBE __keyspace@0__:k; XGROUP CREATECONSUMER <stream> <g> <c>; XREADGROUP GROUP <g> <c> STREAMS <stream> >;
        XTRIM <stream> MAXLEN 0; HDEL <hash> f g n; SINTERSTORE t t none; ZREMRANGEBYRANK <zset> 0 -1; GETEX <str> PX <soon>; GETDEL <str>;
        LTRIM <list> 5 6; RESTORE <key> 0 <payload> REPLACE; SMOVE t t2 a; SETRANGE k 0 x; INCRBYFLOAT n 1
    """),
    "times": ("", """
        SET <str> <v> PX <soon>; PEXPIRE <key> <soon>; PEXPIRE <key> <soon>; PEXPIREAT <key> 1; EXPIREAT <key> 1; EXPIRE <key> -1;
        HPEXPIRE <hash> <soon> FIELDS 2 f g; HPEXPIRE <hash> <soon> FIELDS 1 f; HEXPIRE <hash> 0 FIELDS 1 f; HGETALL <hash>;
        HGETEX <hash> PX <soon> FIELDS 1 g; HSETEX <hash> PX <soon> FIELDS 1 f v; HPERSIST <hash> FIELDS 1 f; GETEX <str> PX <soon>;
        PSETEX <str> <soon> v; GET <str>; EXISTS <key> <key>; PEXPIREAT <key> <later> [(NX|XX|GT|LT)]; PERSIST <key>; RENAME <key> <key>;
        COPY <key> <key> REPLACE; MOVE <key> 1; SWAPDB 0 1; DBSIZE; SET <str> v KEEPTTL; SET <str> v GET PX <soon>;
        SORT <list> ALPHA STORE <list>; SINTERSTORE t t2 <set>; HLEN <hash>; HDEL <hash> f; RESTORE <key> <soon> <payload> REPLACE;
        TOUCH <key>; OBJECT ENCODING <key>; DUMP <key>; EVAL <script> 1 <str> <v>; WATCH <key>; MSETEX 2 k a k2 b PX <soon>;
        XREADGROUP GROUP g alice STREAMS <stream> >; BITOP AND k k2 n; LMOVE <list> <list> LEFT RIGHT
    """),
    "clocks": ("CONFIG SET lfu-log-factor 0 lfu-decay-time 0 maxmemory-policy <policy>", """
        RESTORE <key> 0 <payload> REPLACE IDLETIME 1000; RESTORE <key> 0 <payload> REPLACE FREQ 100; OBJECT IDLETIME <key>; OBJECT FREQ <key>;
        OBJECT IDLETIME <key>; OBJECT FREQ <key>; GET <str>; TOUCH <key> [<key>]; CLIENT NO-TOUCH (ON|OFF); COPY <key> <key> REPLACE;
        RENAME <key> <key>; MOVE <key> 1; SWAPDB 0 1; EXISTS <key>; TTL <key>; OBJECT ENCODING <key>; XACK <stream> <g> 1-0;
        XREADGROUP GROUP <g> <c> STREAMS <stream> >; XREAD STREAMS <stream> 0; SORT <list> ALPHA; EXPIRE <key> 1000; PERSIST <key>;
        SETRANGE k 0 x; GETRANGE k 0 1; DUMP <key>; WATCH <key>; EVAL <script> 1 <str> <v>; XINFO STREAM <stream>; HGET <hash> f;
        SUNIONSTORE t t2; BLPOP <list> 0; LPOS <list> a; SET <str> v XX GET; GETEX <str>; PFCOUNT p; BITOP NOT k k2
    """),
    "memory": ("", """
        CONFIG SET maxmemory 1; CONFIG SET maxmemory 0; CONFIG SET maxmemory 0; EVAL <script> 1 <str> <v>; SET <str> <v>; RPUSH <list> a;
        MULTI; EXEC; LPOP <list>; DEL <key>; SUBSCRIBE ch1; BLMOVE l9 l2 LEFT LEFT 0; XREADGROUP GROUP g alice STREAMS s >;
        FUNCTION LOAD REPLACE <library>; FCALL f1 1 k v; EVAL_RO <script> 1 k v; XACK s g 1-0; PFADD p x; COPY k k2 REPLACE
    """),
    "roles": ("", """
        REPLICAOF 127.0.0.1 1; REPLICAOF NO ONE; REPLICAOF NO ONE; REPLICAOF NO ONE; CONFIG SET replica-read-only (yes|no);
        CONFIG SET replica-serve-stale-data (yes|no); CONFIG SET replica-serve-stale-data yes; SET <str> v PX <soon>; GET <str>;
        BLPOP l9 0; XREADGROUP GROUP g alice BLOCK 0 STREAMS s9 >; XREAD BLOCK 0 STREAMS s9 $; EVAL <script> 1 <str> <v>;
        MULTI; EXEC; PUBLISH ch1 m; ROLE; DBSIZE; PING; WAIT 0 0; EXISTS <key>; CLIENT PAUSE 100000 WRITE; CLIENT UNPAUSE
    """),
    "users": ("ACL SETUSER u1 on nopass ~* &* +@all", """
        AUTH u1 pw; AUTH u1 pw; AUTH default x; ACL SETUSER u1 <rule> [<rule>]; ACL SETUSER u1 (-@write|+@all|~k*|resetkeys|allkeys);
        ACL SETUSER u1 reset; ACL SETUSER u1 on nopass ~* &* +@all; ACL SETUSER u1 (resetchannels|allchannels|&ch1); ACL SETUSER u1 off;
        ACL DELUSER u1; ACL WHOAMI; RESET; BLPOP l9 0; XREADGROUP GROUP g alice BLOCK 0 STREAMS s9 >; MULTI; EXEC; SUBSCRIBE ch1;
        PSUBSCRIBE ch*; CLIENT KILL USER u1; CLIENT TRACKING ON BCAST; EVAL <script> 1 <str> <v>; ACL DRYRUN u1 GET k; SSUBSCRIBE ch1;
        HELLO 3 AUTH u1 pw; FCALL f1 1 k v; EVAL <acl> 1 <key> <v>; FCALL_RO f2 1 k; ACL SETUSER u1 (-@scripting|+eval|-set|+set|%R~k);
        FUNCTION LOAD REPLACE <library>; EVAL_RO <acl> 1 <str> <v>
    """),
    "databases": ("", """
        SELECT (0|1|2); SELECT 0; SWAPDB 0 1; SWAPDB 1 2; MOVE <key> (0|1|2); COPY <key> <key> DB (0|1) [REPLACE]; FLUSHDB; FLUSHALL;
        WATCH <key>; BLPOP l9 0; XREAD BLOCK 0 STREAMS s9 $; RPUSH l9 a; XADD s9 * f v; GET <str>; MULTI; EXEC; DBSIZE; DEBUG RELOAD;
        PEXPIRE <key> <soon>; EVAL <script> 1 <str> <v>
    """),
    "groups": ("", """
        XREADGROUP GROUP <g> <c> [COUNT 1] [NOACK] STREAMS <stream> (>|0); XACK <stream> <g> (1-0|2-0|3-0); XADD <stream> * f v;
        XCLAIM <stream> <g> <c> 0 (1-0|2-0) [FORCE] [JUSTID] [IDLE 1000] [RETRYCOUNT 5]; XAUTOCLAIM <stream> <g> <c> 0 0 [COUNT 1] [JUSTID];
        XNACK <stream> <g> (SILENT|FAIL|FATAL) IDS 1 (1-0|2-0); XPENDING <stream> <g>; XDEL <stream> (1-0|2-0); XTRIM <stream> MAXLEN 1;
        XGROUP DELCONSUMER <stream> <g> <c>; XGROUP DESTROY <stream> <g>; XGROUP CREATE <stream> <g> 0 MKSTREAM; XACKDEL <stream> <g> IDS 1 1-0;
        XREADGROUP GROUP <g> <c> BLOCK 0 [CLAIM 1000000] STREAMS <stream> >; XREADGROUP GROUP <g> <c> BLOCK 0 STREAMS s s9 > >; XSETID s9 9-9;
        XDELEX <stream> KEEPREF IDS 1 1-0; XADD <stream> MAXLEN 2 * f v; DEL <stream>; XREADGROUP GROUP g alice CLAIM 0 STREAMS <stream> >;
        XREADGROUP GROUP <g> <c> [COUNT 1] CLAIM 0 [NOACK] STREAMS s s2 > >;
        XREADGROUP GROUP <g> <c> CLAIM 1000000 STREAMS <stream> (>|0)
    """),
    "timeouts": ("DEL l9 z9 s9", """
        BLPOP <list> [<list>] <seconds>; BRPOP l9 <seconds>; BLMOVE <list> <list> LEFT RIGHT <seconds>; BLMPOP <seconds> 1 <list> LEFT;
        BZPOPMIN <zset> [<zset>] <seconds>; BZMPOP <seconds> 1 <zset> MAX; XREAD BLOCK <short> STREAMS <stream> ($|0);
        XREAD BLOCK <short> STREAMS s s9 $ $; XREADGROUP GROUP <g> <c> BLOCK <short> [NOACK] STREAMS <stream> >; BLPOP l9 <seconds>;
        XREADGROUP GROUP <g> <c> BLOCK <short> CLAIM 1000000 STREAMS <stream> >; BLPOP l9 0; XREAD BLOCK 0 STREAMS s9 $; RPUSH l9 a;
        CLIENT TRACKING ON; CLIENT NO-TOUCH (ON|OFF); CLIENT INFO; MULTI; EXEC; CLIENT LIST; SELECT (0|1); DEL (l9|s9);
        CLIENT UNBLOCK <id>; WAIT 1 <short>; WAIT 0 <short>; SUBSCRIBE ch1; PUBLISH ch1 m; XGROUP CREATE <stream> <g> $ MKSTREAM
    """),
    "passwords": ("", """
        CONFIG SET requirepass pw; CONFIG SET requirepass <password>; AUTH pw; AUTH pw; AUTH default pw; AUTH w; AUTH default w; RESET; RESET;
        HELLO (2|3) AUTH default (pw|w) [SETNAME <v>]; HELLO (2|3); ACL WHOAMI; PING; GET <str>; MULTI; EXEC; BLPOP l9 0; RPUSH l9 a; QUIT;
        SUBSCRIBE ch1; PUBLISH ch1 m; WATCH <key>; CLIENT TRACKING ON BCAST; EVAL <script> 1 <str> <v>; ECHO <v>; ACL LOG; CLIENT KILL ID <id>;
        ACL SETUSER u1 on >pw ~* &* +@all; ACL SETUSER u1 resetpass; AUTH u1 pw; CONFIG GET requirepass; CLIENT SETNAME <v>
    """),
    "protocols": ("", """
        HELLO (2|3); HELLO 2; HELLO 3; RESET; SUBSCRIBE <ch>; PSUBSCRIBE ch*; SSUBSCRIBE <ch>; UNSUBSCRIBE <ch>; PUNSUBSCRIBE ch*; PING [<v>];
        PUBLISH <ch> m; GET <str>; HGETALL <hash>; MULTI; EXEC; CLIENT TRACKING ON [BCAST]; CLIENT TRACKING ON REDIRECT <id>; SET <str> <v>;
        CLIENT CACHING YES; CLIENT TRACKING OFF; CLIENT LIST; CLIENT INFO; QUIT; CLIENT REPLY (ON|OFF|SKIP); ZADD z 1.5 a; ZSCORE z a;
        XRANGE <stream> - +; XREAD STREAMS <stream> 0; BLPOP l9 0; XREAD BLOCK 0 STREAMS s9 $; RPUSH l9 a; XADD s9 * f v; EVAL <script> 1 <str> <v>;
        DEBUG PROTOCOL (double|null|map|set|attrib|verbatim|true|bignum); SUNSUBSCRIBE <ch>; SMEMBERS <set>; CONFIG GET maxmemory
    """),
    "master": ("", """
        REPLICAOF 127.0.0.1 {master}; REPLICAOF 127.0.0.1 {master}; REPLICAOF 127.0.0.1 {master}; REPLICAOF NO ONE; ROLE; DBSIZE;
        CONFIG SET replica-read-only (yes|no); CONFIG SET replica-read-only yes; GET <str>; SET <str> <v>; EXISTS <key> <key>; TTL <key>;
        BLPOP l9 0; XREAD BLOCK 0 STREAMS s9 $; XREADGROUP GROUP g alice BLOCK 0 STREAMS s9 >; SUBSCRIBE ch1; PUBLISH ch1 m;
        CLIENT TRACKING ON [BCAST]; HGETALL <hash>; LRANGE <list> 0 -1; MULTI; EXEC; SELECT (0|1); EVAL <script> 1 <str> <v>;
        WAIT 0 0; XINFO STREAM <stream>; EVAL_RO <script> 1 <str> <v>; FCALL_RO f2 1 k; PUBSUB NUMSUB ch1; XPENDING s g; GETEX <str>
    """),
    "eviction": ("CONFIG SET lfu-log-factor 0 lfu-decay-time 0 maxmemory-eviction-tenacity 100 maxmemory-policy <evicting>", """
        CONFIG SET maxmemory 1; CONFIG SET maxmemory 0; CONFIG SET maxmemory 0; SET <str> <v>;
        SET <str> <v> EX 100000; EXPIRE <key> 100000; PERSIST <key>; RPUSH <list> a; MULTI; EXEC; EXEC; WATCH <key>; EVAL <script> 1 <str> <v>;
        BLPOP l9 0; RPUSH l9 a; XREADGROUP GROUP g alice BLOCK 0 STREAMS <stream> >; CLIENT TRACKING ON [BCAST]; GET <str>; HGETALL <hash>;
        DBSIZE; SELECT (0|1); SWAPDB 0 1; COPY <key> <key> REPLACE; PUBLISH ch1 m; SUBSCRIBE ch1; EXISTS <key>; XADD s9 * f v; ZADD z9 1 a
    """),
}  # fmt: skip

# What a master is sent beside the server that follows it.
OF_MASTER = """
PUBLISH ch1 m; SELECT (0|1); SELECT 0; MULTI; EXEC; EXEC; EVAL <script> 1 <str> <v>; FUNCTION LOAD REPLACE <library>; FCALL f1 1 k v;
SET <str> <v> PX <soon>; PEXPIRE <key> <soon>; GET <str>; EXISTS <key>; HPEXPIRE <hash> <soon> FIELDS 1 f; HGETALL <hash>; MOVE <key> 1;
SWAPDB 0 1; XGROUP CREATE <stream> <g> 0 MKSTREAM; XREADGROUP GROUP <g> <c> COUNT 1 STREAMS <stream> >; XACK <stream> <g> 1-0;
XADD s9 * f v; RPUSH l9 a; XTRIM <stream> MAXLEN 1; SPUBLISH ch1 m; SCRIPT FLUSH; XAUTOCLAIM <stream> <g> <c> 0 0; SET <str> v KEEPTTL
"""

FREEING = [
    "CLIENT UNPAUSE", "CLIENT UNBLOCK <id>", "CLIENT UNBLOCK <id>", "RPUSH l9 a", "XADD s9 * f v", "ZADD z9 1 a",
]  # fmt: skip
# Where a story ends: what waits goes on, and what was limited is free again.
ENDING = [
    "CLIENT LIST", "CLIENT UNPAUSE", "CONFIG SET maxmemory 0", "REPLICAOF NO ONE", "CONFIG SET replica-serve-stale-data yes",
    *(f"CLIENT UNBLOCK {{id{number}}}" for number in range(CONNECTIONS)), "CLIENT LIST", "PUBSUB CHANNELS", "PUBSUB SHARDCHANNELS",
    *(f"OBJECT {clock} {key}" for key in KEYS for clock in ("IDLETIME", "FREQ")), "INFO everything",
]  # fmt: skip


def written(pattern: str, draw: random.Random) -> Words:
    """The words that a pattern stands for."""
    while (found := re.search(r"\[([^][()]*)\]|\(([^][()]*)\)", pattern)) is not None:
        chosen = draw.choice([found[1], ""]) if found[1] is not None else draw.choice(found[2].split("|"))
        pattern = pattern[: found.start()] + chosen + pattern[found.end() :]
    words = pattern.split()
    return [draw.choice(POOLS[word[1:-1]]) if word[0] == "<" else word for word in words]


def _waits_for_several(words: Words) -> bool:
    """Whether a command may wait for several keys."""
    match words[0].upper():
        case "BLPOP" | "BRPOP" | "BZPOPMIN" | "BZPOPMAX":
            return len(words) > 3
        case "BLMPOP" | "BZMPOP":
            return words[2] != "1"
        case "XREAD" | "XREADGROUP":
            return len(words) - words.index("STREAMS") > 3
    return False


# Themes that leave others out: which keys are evicted would be chance, a short pause of all become as long as another, a
# timeout end in a pause, an end of a wait come between.
NOT_BESIDE = {
    "clocks": {"memory", "eviction"},
    "eviction": {"memory"},
    "master": {
        "pauses", "pauses of all", "roles", "timeouts", "eviction", "memory", "clocks", "users", "passwords",
    },
    "pauses": {"pauses of all", "timeouts"},
    "roles": {"pauses of all", "timeouts", "eviction"},
    "pauses of all": {"timeouts"},
}  # fmt: skip


class Story:
    """A story of one seed: `run` as the player takes it."""

    def __init__(self, seed: int, version: str = "8.10", themes: list[str] | None = None) -> None:
        self.draw = random.Random(seed)
        self.maker = Maker(seed, version)
        self.themes = themes or self.draw.sample(sorted(THEMES), self.draw.choice([1, 2, 2, 3, 4]))
        for name, others in NOT_BESIDE.items():
            if name in self.themes:
                self.themes = [other for other in self.themes if other not in others]
        self.lines = [line for name in self.themes for line in lines_of(THEMES[name][1])]
        self.pauses = any("PAUSE" in line for line in self.lines)
        # UNBLOCK of a client that is paused ends 7.0.15.
        self._may_unblock = self.maker._shows_rules or not self.pauses
        self.writes = lines_of(WRITES)

    def command(self) -> Words:
        """A line of the themes, a write, or any command."""
        kind = self.draw.random()
        if kind < 0.6:
            return written(self.draw.choice(self.lines), self.draw)
        if kind < 0.8:
            return written(self.draw.choice(self.writes), self.draw)
        while (words := self.maker.command())[0].lower() in BLOCKING:
            pass
        return words

    def run(self, size: int) -> Run:
        """The data, the beginnings of the themes, so many commands, and looks."""
        beginnings = [line for name in self.themes for line in lines_of(THEMES[name][0])]
        out: Run = [(LOOKING, written(line, self.draw)) for line in beginnings]  # first: freq-after-policy
        out += [(LOOKING, words) for words in BEGINNING]
        if self.draw.random() < 0.5:
            out += [(LISTENING, ["CLIENT", "TRACKING", "ON", "BCAST"])]
        if self.draw.random() < 0.5:
            out += [
                (LOOKING, ["CONFIG", "SET", "notify-keyspace-events", "KEAn"]),
                (LISTENING, ["PSUBSCRIBE", "__key*__:*"]),
            ]
        in_transaction: set[int] = set()
        silent: set[int] = set()
        logged_in: set[int] = set()
        seen: set[str] = {word for _, words in out for word in words} & {"BCAST"}
        blocked, number = False, 0
        for _ in range(size):
            if self.draw.random() < 0.6:
                number = self.draw.randrange(CONNECTIONS)
            words = self.command()
            if "master" in self.themes and self.draw.random() < 0.3:
                out.append((BESIDE, written(self.draw.choice(self.writes + lines_of(OF_MASTER)), self.draw)))
            if self.draw.random() < 0.1:  # else all wait soon
                freeing = [line for line in FREEING if self._may_unblock or "UNBLOCK" not in line]
                out.append((LOOKING, written(self.draw.choice(freeing), self.draw)))
            name = words[0].upper()
            if number in in_transaction and not _may_be_queued(words):
                continue
            if name == "CLIENT" and words[1:2] == ["REPLY"]:
                silent.add(number)
            if not self.maker._shows_rules and name in {"SUBSCRIBE", "PSUBSCRIBE"}:
                words = [
                    words[0],
                    *(word for word in words[1:] if "__key" not in word),
                ]  # events-within-replies
            if name.endswith("UNSUBSCRIBE") and len(words) == 1:  # function-order
                words = [name, "ch1"]
            if words[:2] == ["CLIENT", "TRACKING"] and not self.maker._shows_rules and "users" in self.themes:
                continue  # as 7.0: it names keys that a user may not read
            if words[:2] == ["CLIENT", "UNBLOCK"] and not self._may_unblock:
                continue
            seen |= {name, *words} & {"WATCH", SOON}
            if name in {"KEYS", "SCAN"} and SOON in seen:
                continue  # they drop what is past its time in the order of a hash table
            if number in in_transaction and words[:2] == ["CLIENT", "KILL"]:
                continue  # user-gone-at-exec
            if "NOLOOP" in map(str.upper, words) and not self.maker._shows_rules:
                continue  # 7.0 pops from a list for a waiter as the client that pushed
            if name == "WATCH" and SOON in seen and not self.maker._shows_rules:
                continue  # watches-of-7-0
            if number in in_transaction and name == "REPLICAOF" and SOON in seen:
                continue  # pause-at-exec
            if name == "WATCH" and "master" in self.themes:
                continue  # watches-of-a-full-sync
            if name == "SWAPDB" and seen >= {"WATCH", SOON}:
                continue  # watches-through-swaps
            if words[:2] == ["DEBUG", "RELOAD"] and (blocked or SOON in seen):
                continue  # reload-wakes, reload-past-the-time
            upper = set(map(str.upper, words))
            if number in silent and (name == "QUIT" or upper & {"KILL", "DELUSER", "SETUSER"}):
                continue  # error-without-reply
            if number in silent and name.lower() in BLOCKING and {"roles", "master"} & set(self.themes):
                continue  # error-without-reply
            if "AUTH" in upper and blocked:
                continue  # auth-at-exec
            if (
                name == "CONFIG"
                and {"memory", "eviction"} & set(self.themes)
                and any("maxmemory-policy" in word for word in words)
            ):
                continue  # which keys are evicted is chance
            if name == "CONFIG" and any(word.endswith("-lfu") for word in words):
                continue  # freq-after-policy
            if not self.maker._shows_rules:
                if name == "SWAPDB" and seen & {"SEVERAL", "BCAST"}:
                    continue  # orders-of-hash-tables, pops-for-waiters-as-7.0
                if name == "PFMERGE" and len(words) == 2:
                    continue  # keys-of-pfmerge
                if "SETUSER" in upper and number in logged_in:
                    continue  # rights-of-ones-own
                seen |= {"SEVERAL"} if _waits_for_several(words) else upper & {"BCAST"}
                logged_in |= {number} if "AUTH" in upper else set()
            blocked = blocked or name.lower() in BLOCKING or words[1:2] == ["PAUSE"]
            if name in {"FLUSHALL", "FLUSHDB"} and any(
                "PAUSE" in line for line in self.lines
            ):  # else it replies by itself later
                words = [name, "ASYNC"]
            out.append((number, words))
            if name == "MULTI":
                in_transaction.add(number)
            elif name in {"EXEC", "DISCARD", "RESET", "QUIT"}:
                in_transaction.discard(number)
        looks = [line.split() for line in ENDING if self._may_unblock or "UNBLOCK" not in line] + LOOKS
        return [*out, *((LOOKING, words) for words in looks if self.maker._may_look(words))]


# Random ones may name a time; the themes' wait until they are served.
BLOCKING = {
    *("blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "blmovem"),
    *("xread", "xreadgroup"),
}
