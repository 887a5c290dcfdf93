"""Random consumer-group work on a real server, with crashes and rewrites, and what XPENDING said on the way."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.aof import rewrite, until_rewritten
from support.servers import ServerProcess

KEYS = ("orders", "jobs", "caf\u00e9 \\x", "moved")
GROUPS = ("g", "second")
CONSUMERS = ("alice", "bob", "carol")
MARKS = "marks"  # a stream whose entries mark moments
Held = dict[str, tuple[str | None, int]]

REWRITES = {
    "rillet": ("--aof-history-retention", "3600 1gb", "--aof-timestamp-enabled", "ms"),
    "redis7": ("--aof-disable-auto-gc", "yes", "--aof-timestamp-enabled", "yes"),
    "valkey": ("--aof-disable-auto-gc", "yes", "--aof-timestamp-enabled", "yes"),
}


@dataclass
class Workload:
    """Runs on one server that it may kill. `moments[n]` is what was pending when entry n-1 was added to `marks`."""

    kind: str
    folder: Path
    seed: int
    rdb_base: bool = True
    moments: list[dict[tuple[int, str, str], Held]] = field(default_factory=list)
    rewritten: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        name = self.kind.partition("-")[0]
        base = ("--aof-use-rdb-preamble", "yes" if self.rdb_base else "no")
        flags = ("--appendonly", "yes", "--appendfsync", "no", *base, *REWRITES[name])
        self.server = ServerProcess(self.kind, *flags, folder=self.folder)
        self.wire = self.server.wire()
        self.newest = self.kind == "rillet"
        self.db = 0
        self.clock = 0

    def call(self, *words: object) -> object:
        return self.wire.call(*(str(word) for word in words)).plain()

    def run(self, steps: int, moments: int = 10) -> None:
        """Do so many random things, and record so many moments, the last one at the end."""
        every = max(steps // moments, 1)
        for step in range(1, steps + 1):
            self.step()
            if step % every == 0:
                self.record()
        self.record()

    def step(self) -> None:
        chosen = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        getattr(self, chosen)()

    def stop(self) -> None:
        self.wire.close()
        self.server.stop()

    # Single things

    def key(self) -> str:
        return self.random.choice(KEYS)

    def ids(self, key: str, most: int = 4) -> list[str]:
        """Some ids: there, pending, or neither."""
        found = self.call("XRANGE", key, "-", "+", "COUNT", 200)
        there = [entry[0].decode() for entry in found] if isinstance(found, list) else []
        group = self.random.choice(GROUPS)
        pending = self.call("XPENDING", key, group, "-", "+", 200)
        held = [entry[0].decode() for entry in pending] if isinstance(pending, list) else []
        pool = there[-8:] + held * 2 + ["7", "0-9"]
        return self.random.sample(pool, min(len(pool), self.random.randint(1, most)))

    def add(self) -> None:
        key = self.key()
        limit: list[object] = []
        if self.random.random() < 0.3:
            limit = ["MAXLEN", self.random.choice(["=", "~"]), self.random.randint(3, 12)]
            if self.newest:
                limit += self.random.choice([[], ["DELREF"], ["ACKED"], ["KEEPREF"]])
        fake = "x\r\n#TS:1\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n"
        for _ in range(self.random.randint(1, 4)):
            self.call("XADD", key, *limit, "*", "field", self.random.choice(["v", fake, "*3\r\n$4\r\n"]))

    def create_group(self) -> None:
        start = self.random.choice(["0", "$"])
        self.call("XGROUP", "CREATE", self.key(), self.random.choice(GROUPS), start, "MKSTREAM")

    def read(self) -> None:
        noack = ["NOACK"] if self.random.random() < 0.1 else []
        claim = ["CLAIM", 0] if self.newest and not noack and self.random.random() < 0.3 else []
        self.call(
            "XREADGROUP", "GROUP", self.random.choice(GROUPS), self.random.choice(CONSUMERS),
            "COUNT", self.random.randint(1, 4), *noack, *claim, "STREAMS", self.key(), ">",
        )  # fmt: skip

    def ack(self) -> None:
        key = self.key()
        self.call("XACK", key, self.random.choice(GROUPS), *self.ids(key))

    def claim(self) -> None:
        key = self.key()
        options = [word for word in ("FORCE", "JUSTID") if self.random.random() < 0.3]
        if self.random.random() < 0.2:
            options += ["RETRYCOUNT", str(self.random.randint(1, 9))]
        if self.random.random() < 0.1:
            options += ["IDLE", str(self.random.randint(1, 9999))]
        group, consumer = self.random.choice(GROUPS), self.random.choice(CONSUMERS)
        self.call("XCLAIM", key, group, consumer, 0, *self.ids(key), *options)

    def autoclaim(self) -> None:
        group, consumer = self.random.choice(GROUPS), self.random.choice(CONSUMERS)
        self.call("XAUTOCLAIM", self.key(), group, consumer, 0, "0", "COUNT", self.random.randint(1, 5))

    def delete(self) -> None:
        key = self.key()
        self.call("XDEL", key, *self.ids(key))

    def trim(self) -> None:
        key = self.key()
        if self.random.random() < 0.5:
            self.call("XTRIM", key, "MAXLEN", self.random.choice(["~", "="]), self.random.randint(0, 9))
        else:
            self.call("XTRIM", key, "MINID", self.ids(key, 1)[0])

    def trim_with_policy(self) -> None:
        if self.newest:
            policy = self.random.choice(["KEEPREF", "DELREF", "ACKED"])
            self.call("XTRIM", self.key(), "MAXLEN", self.random.randint(0, 9), policy)

    def delete_with_policy(self) -> None:
        if self.newest:
            key, policy = self.key(), self.random.choice(["KEEPREF", "DELREF", "ACKED"])
            ids = self.ids(key)
            if self.random.random() < 0.5:
                self.call("XDELEX", key, policy, "IDS", len(ids), *ids)
            else:
                self.call("XACKDEL", key, self.random.choice(GROUPS), policy, "IDS", len(ids), *ids)

    def nack(self) -> None:
        if self.newest:
            key = self.key()
            ids = self.ids(key)
            mode = self.random.choice(["SILENT", "FAIL", "FATAL"])
            options = ["FORCE"] if self.random.random() < 0.3 else []
            if self.random.random() < 0.3:
                options += ["RETRYCOUNT", "4"]
            self.call("XNACK", key, self.random.choice(GROUPS), mode, "IDS", len(ids), *ids, *options)

    def change_group(self) -> None:
        key, group, consumer = self.key(), self.random.choice(GROUPS), self.random.choice(CONSUMERS)
        what = self.random.choice(["SETID", "DESTROY", "CREATECONSUMER", "DELCONSUMER", "DELCONSUMER"])
        last = [self.random.choice(["0", "$"])] if what == "SETID" else []
        self.call("XGROUP", what, key, group, *(last or ([consumer] if "CONSUMER" in what else [])))

    def transaction(self) -> None:
        self.call("MULTI")
        self.add()
        key = self.key()
        group = self.random.choice(GROUPS)
        self.call("XREADGROUP", "GROUP", group, "dave", "STREAMS", key, ">")
        self.call("XACK", key, group, "0-9")
        self.call("EXEC")

    def change_key(self) -> None:
        key, other = self.key(), self.key()
        what = self.random.choice(
            ["DEL", "UNLINK", "SET", "RENAME", "COPY", "MOVE", "SWAPDB", "EXPIRE", "RESTORE"]
        )
        if what in {"DEL", "UNLINK"}:
            self.call(what, key)
        elif what == "SET":
            self.call("SET", key, "text")
            self.call("DEL", key)
        elif what == "RENAME":
            self.call("RENAME", key, other)
        elif what == "COPY":
            self.call("COPY", key, other, "DB", self.random.choice([0, 1]), "REPLACE")
        elif what == "MOVE":
            self.call("MOVE", key, 1 - self.db)
        elif what == "SWAPDB":
            self.call("SWAPDB", 0, 1)
        elif what == "EXPIRE":
            self.call("PEXPIRE", key, 1)
            time.sleep(0.003)
            self.call("EXISTS", key)
        else:
            payload = self.call("DUMP", key)
            if isinstance(payload, bytes):
                self.wire.call("RESTORE", other, "0", payload, "REPLACE")

    def flush(self) -> None:
        self.call(self.random.choice(["FLUSHDB", "FLUSHALL"]))

    def select(self) -> None:
        self.db = self.random.choice([0, 1])
        self.call("SELECT", self.db)

    def rewrite(self) -> None:
        self.rewritten = True
        rewrite(self.wire)

    def crash(self) -> None:
        if self.rewritten and not self.rdb_base:
            # A base in command form has no pending entries whose message is gone: a restart forgets them.
            return
        until_rewritten(self.wire)
        self.wire.close()
        self.server._process.kill()
        self.server._process.wait()
        self.server.start()
        self.wire = self.server.wire()
        self.call("SELECT", self.db)

    def record(self) -> None:
        """What is pending now, in all groups; then a mark."""
        found: dict[tuple[int, str, str], Held] = {}
        for db in (0, 1):
            self.call("SELECT", db)
            for key in KEYS:
                for group in GROUPS:
                    pending = self.call("XPENDING", key, group, "-", "+", 100000)
                    if isinstance(pending, list):
                        found[db, key, group] = {
                            entry[0].decode(): (entry[1].decode() or None, entry[3]) for entry in pending
                        }
        self.call("SELECT", 9)
        self.moments.append(found)
        self.call("XADD", MARKS, f"{len(self.moments)}-1", "now", "here")
        self.call("SELECT", self.db)


WEIGHTS = {
    "add": 30, "create_group": 8, "read": 30, "ack": 12, "claim": 12, "autoclaim": 6, "delete": 5, "trim": 3,
    "trim_with_policy": 2, "delete_with_policy": 4, "nack": 4, "change_group": 4, "transaction": 5,
    "change_key": 3, "flush": 0.3, "select": 3, "rewrite": 1, "crash": 1,
}  # fmt: skip
