"""Plays stories that cross features: all that each connection gets after each step, in order, and what the file gets."""

import re
import select
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby

from differential import player
from differential.about_servers import filled, reset
from differential.anything import BEGINNING, BLOCKING, SUBSCRIBING, Run, Words
from differential.crossing import BESIDE, LISTENING, LOOKING, MASTER, SHORT, SHORT_SECONDS
from differential.hiding import STANDING, TIME, hide, hide_of_message
from differential.pairs import JUDGES
from differential.player import IS_BLOCKED, MESSAGES, SOON, Comparison, Difference, OnServer, batches
from support.servers import start_server
from support.wire import ConnectionClosedError, Node, Wire, encode_command

MILLISECONDS = 4  # of a time that passes: what comes in one turn on a busy machine still meets it
FOLLOW_SECONDS = 20
REWRITTEN = {b"aof_rewrite_in_progress:0", b"aof_rewrite_scheduled:0", b"aof_enabled:1"}
TIMEOUT_MILLISECONDS = 5
PASSWORD = "pw"  # the only one that a story sets
# What INFO says of what has happened, but for what depends on time or on a server's own structures.
COUNTERS = re.compile(
    rb"(?m)^(?:keyspace_(?:hits|misses)|expired_(?:keys|subkeys)|evicted_(?:keys|clients)|pubsub\w*|tracking_\w+|\w*blocked_\w+|"
    rb"rdb_changes_since_last_save|\w+_error_replies|acl_access_denied_\w+|role|errorstat_\w+|"
    rb"db\d+|cmdstat_\w+):[^\r]*"
)
HIDDEN = re.compile(rb",usec=\d+|,usec_per_call=[\d.]+|,avg_ttl=\d+|,subexpiry=\d+|,slowlog_\w+=\d+")
MANY = 20  # lines, of which only those that differ are shown
BETWEEN = " | "  # lines of INFO
INVALIDATE = '< >[$"invalidate"'
KEY = re.compile(r'\$"\w*"')
OLD = 500
RESUMED = re.compile(rb"( flags=\w*?)u")  # the flag of a client that waited, until the end of the turn
CONTROL = b"control"
# Since 7.4 Redis frees what FLUSHALL removes in another thread, and replies then: soon. In stories with pauses, in which
# a client waits for long, it is ASYNC.
FLUSHES, FLUSH_SECONDS = {"FLUSHALL", "FLUSHDB"}, 10
# Rounds of the event loop until nothing more comes of a command, and what goes round.
# What may wait, close its connection or take long goes alone.
ALONE = player.ALONE | BLOCKING | {
    *("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "function", "script"),
    *("flushall", "flushdb", "swapdb", "replicaof", "slaveof", "config", "wait", "pfcount", "pfmerge"),
}  # fmt: skip
TURNS, TURNS_OF_RILLET, NOTHING = 1, 2, ("CLIENT", "ID")
LOOKS_AT_MOST = 5
NOT_IN_MULTI = {"AUTH", "DELUSER", "PAUSE", "REPLY"}  # auth-, user-gone-, pause-, reply-mode-in-exec
# Behind these the turn of a client may be over, or the reply comes by itself.
LONG = (
    "EVAL", "FCALL", "EXEC", "FLUSH", "CLIENT KILL", "CLIENT TRACKING", "FUNCTION",
    "SCRIPT", "PFCOUNT", "PFMERGE", "SWAPDB", "RESET", "HELLO", "QUIT",
)  # fmt: skip
OF_THE_PLAYER = (b"cmdstat_client|id", b"cmdstat_client|list", b"cmdstat_hello")
OF_FOLLOWING = (b"cmdstat_info", b"cmdstat_role")  # the player asks how far it is
OF_CLOSED = (b"tracking_total_keys", b"tracking_total_items")
# 7.0 has its own mind about clients that waited: failed calls, and changes for those that are served.
OF_7_0 = (b"rdb_changes_since", *(b"cmdstat_%b:" % name.encode() for name in BLOCKING))
SETTINGS = [
    # There is room for the next command: a script without a limit asks what the last limit allowed.
    ("maxmemory", "100gb"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("maxmemory-eviction-tenacity", "10"),
    ("requirepass", ""),
    ("lfu-log-factor", "10"),
    ("lfu-decay-time", "1"),
    ("notify-keyspace-events", ""),
    ("replica-read-only", "yes"),
    ("replica-serve-stale-data", "yes"),
    ("tracking-table-max-keys", "1000000"),
]


class Beside:
    """A master of a real server's kind, which a server of a story may follow."""

    def __init__(self, kind: str) -> None:
        flags = (
            "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600", "--enable-debug-command", "yes",
        )  # fmt: skip
        self.server = start_server(kind, *flags)
        self.control = self.server.wire()
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")

    def close(self) -> None:
        self.control.close()
        self.server.discard()

    def begin(self) -> None:
        for words in (["FLUSHALL"], ["FUNCTION", "FLUSH"], ["SCRIPT", "FLUSH"]):
            self.control.call(*words)

    def offset(self) -> bytes:
        """How much it has sent."""
        return re.search(rb"master_repl_offset:(\d+)", self.control.call("INFO", "replication").value)[1]

    def wait_for(self, wire: Wire, replies: int) -> None:
        """Wait until so many replies can be read."""
        nodes = [wire.read() for _ in range(replies)]
        for node in reversed(nodes):
            wire.put_back(node)


class Stage(OnServer):
    """A server, and connections of which all is seen after each step of a story."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.is_7_0 = kind in {"redis7", "rillet-7.0"}
        self.left_out: tuple[bytes, ...] = ()
        self.control.call("CLIENT", "SETNAME", CONTROL)
        self.control.call("EVAL", "return 1", "0")  # the first script takes long
        self.beside: Beside | None = None

    def close(self) -> None:
        if self.beside is not None:
            self.beside.close()
        super().close()

    def play(self, run: Run) -> list[list[str]]:
        """What is seen after each batch of a run."""
        self._begin()
        self.follows = any(number == BESIDE or MASTER in words for number, words in run)
        if self.follows:
            self.left_out = OF_FOLLOWING + self.left_out
            self._begin_beside()
        return [self.step(number, [run[at][1] for at in steps]) for number, steps in batches(run, ALONE)]

    def _begin(self) -> None:
        for wire in self.wires:
            wire.close()
        self.control.calls([["CLIENT", "UNPAUSE"], ["REPLICAOF", "NO", "ONE"]])
        self.control.calls([*(["CONFIG", "SET", *pair] for pair in SETTINGS), *self.settings])
        self.control.calls([["FLUSHALL"], ["SAVE"]])
        while self.control.call("CLIENT", "LIST").value.count(b"\n") > 1:
            pass
        reset(self.control)
        self.tail.take()
        self.known = {
            **self.payloads,
            SOON.strip("{}"): b"%d" % MILLISECONDS,
            SHORT.strip("{}"): b"%d" % TIMEOUT_MILLISECONDS,
            SHORT_SECONDS.strip("{}"): b"%f" % (TIMEOUT_MILLISECONDS / 1000),
        }
        self.wires = []
        self.awaited: list[list[Words]] = [[] for _ in range(BESIDE + 1)]
        self.queued: list[list[Words]] = [[] for _ in range(BESIDE + 1)]
        self.waits_always = self.redirects = self.silences = self.limited = self.evicts = False
        self.database = "0"
        self.left_out = OF_THE_PLAYER + (OF_7_0 if self.is_7_0 else ())
        self.poll = select.poll()
        self.poll.register(self.control._socket)
        for number in range(LISTENING + 1):
            self.wires.append(self._connect(number))

    def _begin_beside(self) -> None:
        if self.beside is None:
            self.beside = Beside(JUDGES[self.kind][0] if self.kind in JUDGES else self.kind)
        self.beside.begin()
        self.known[MASTER.strip("{}")] = b"%d" % self.beside.server.port
        self.wires.append(self.beside.server.wire())
        self.poll.register(self.wires[BESIDE]._socket, select.POLLIN)

    def _follow(self, acting: int) -> None:
        """If the server follows the master beside it, wait until it has all of its stream, and has rewritten its file."""
        assert self.beside is not None
        if acting == BESIDE:  # until it has replied to all
            self.beside.wait_for(self.wires[BESIDE], len(self.awaited[BESIDE]))
        port, until = b"%d" % self.beside.server.port, time.monotonic() + FOLLOW_SECONDS
        while time.monotonic() < until:
            role = self.control.call("ROLE").children or ()
            if role[0].value != b"slave" or role[2].value != port:
                return
            if role[3].value == b"connected" and role[4].value == self.beside.offset():
                break
            time.sleep(0.001)
        while REWRITTEN - set(self.control.call("INFO", "persistence").value.split(b"\r\n")):
            assert time.monotonic() < until + FOLLOW_SECONDS, "the file is not rewritten"
            time.sleep(0.001)

    def _connect(self, number: int) -> Wire:
        """A new connection: every second one speaks RESP3."""
        wire = self.server.wire()
        if wire.call("CLIENT", "ID").kind == "-":  # NOAUTH
            wire.call("AUTH", PASSWORD)
        if number % 2:
            wire.call("HELLO", "3")
        self.known[f"id{number}"] = wire.call("CLIENT", "ID").value
        self.poll.register(wire._socket, select.POLLIN)
        return wire

    def step(self, number: int, batch: list[Words]) -> list[str]:
        """Send commands at once; what each connection gets then, and the file."""
        awaited = self.awaited[number]
        if awaited and not self._is_blocked(number):
            awaited.clear()  # CLIENT REPLY OFF
        if awaited and (len(awaited) + len(batch) > 2 or any(map(_takes_long, [*awaited, *batch]))):
            return ["not sent"]  # it would be chance what of others comes before
        if (
            number != BESIDE
            and any(map(self._is_left_out_in_multi, batch))
            and (b" multi=-1 " not in self._line_of(number))
        ):
            return ["not sent"]
        awaited += batch
        self.redirects |= any("REDIRECT" in map(str.upper, words) for words in batch)
        self.limited |= any("maxmemory" in words and "1" in words for words in batch)
        self.evicts |= any("maxmemory-policy" in words and "noeviction" not in words for words in batch)
        self.silences |= any("REPLY" in map(str.upper, words) for words in batch)
        # Redis wakes those that wait for keys of the database in the order of a hash table.
        swaps = any(words[0].upper() == "SWAPDB" for each in (*self.awaited, *self.queued) for words in each)
        self.last = (number, batch)
        self.wires[number].send_raw(
            b"".join(encode_command(*(filled(word, self.known) for word in words)) for words in batch)
        )
        self.control.send(*NOTHING)
        first = {descriptor for descriptor, _ in self.poll.poll(60_000)}
        early = not first & {self.control._socket.fileno(), self.wires[number]._socket.fileno()}
        self.control.read()
        if self.follows:
            self._follow(number)
        self._let_run()
        words = batch[0]
        if words[0].upper() in FLUSHES and "ASYNC" not in words and len(awaited) == 1:
            until = time.monotonic() + FLUSH_SECONDS
            while self._is_blocked(number) and time.monotonic() < until:
                pass
        if not {SHORT, SHORT_SECONDS}.isdisjoint(words):
            while self._is_blocked(number):
                self.poll.poll(TIMEOUT_MILLISECONDS)
        seen, looks = self._read_all(), 0
        while looks < LOOKS_AT_MOST and self.awaited[number] and not self._is_blocked(number):
            self._let_run()  # a long batch, or one whose client gets no replies
            seen += self._read_all()
            looks += 1
        more = seen
        while any(not line.startswith(f"{number}<") for line in more):  # others ran as well
            self._let_run()
            seen = seen + (more := self._read_all())
        mine = [line for line in seen if line.startswith(f"{number}< ")]
        if early and mine and not mine[0].startswith(f"{number}< >"):
            seen.append("order: others read before")
        behind = self.is_7_0 and self.redirects  # the reply: redirected-to-the-writer
        seen = _by_patterns(sorted(seen, key=lambda line: (line[0], behind and INVALIDATE in line)))
        seen = _in_one_turn(number, seen, alone=len(batch) == 1 and not self.silences and not self.evicts)
        if SOON in words:
            self.waits_always |= not mine or "QUEUED" in mine[-1]
        if SOON in words or self.waits_always:
            time.sleep((MILLISECONDS + 1) / 1000)
        for effect in self._effects():
            shown = [b"<time>" if TIME.fullmatch(word) and word not in STANDING else word for word in effect]
            if effect[0] == b"SELECT":
                self.database = effect[1].decode()
                if self.limited and self.evicts:  # the databases lose their keys in any order
                    continue
            where = f" in {self.database}" if self.limited and self.evicts else ""
            seen.append(f"aof{where} {b' '.join(shown)!r}")
        return sorted(seen) if swaps or (self.limited and self.evicts) else seen

    def _effects(self) -> list[list[bytes]]:
        """What the file got, without a MULTI and EXEC that say nothing: messages-in-units, evictions-in-units."""
        taken, out = self.tail.take(), []
        while taken:
            words = taken.pop(0)
            if words != [b"MULTI"]:
                out.append(words)
                continue
            unit = taken[: taken.index([b"EXEC"])]
            del taken[: len(unit) + 1]
            names = [each[0] for each in unit if each[0] != b"SELECT"]
            alone = self.beside is not None and len(names) < 2
            evicted = self.limited and self.evicts and set(names) == {b"DEL"}
            out += unit if alone or evicted else [[b"MULTI"], *unit, [b"EXEC"]]
        return out

    def _is_left_out_in_multi(self, words: Words) -> bool:
        upper = list(map(str.upper, words))
        # events-within-replies
        within = self.is_7_0 and any("PUBLISH" in word or word == "HELLO" for word in upper)
        return within or not NOT_IN_MULTI.isdisjoint(upper)

    def _let_run(self) -> None:
        for _ in range(TURNS_OF_RILLET if self.kind.startswith("rillet") else TURNS):
            self.control.call(*NOTHING)

    def _line_of(self, number: int) -> bytes:
        """A connection in CLIENT LIST."""
        return self.control.call("CLIENT", "LIST", "ID", self.known[f"id{number}"]).value

    def _is_blocked(self, number: int) -> bool:
        return number != BESIDE and bool(IS_BLOCKED.search(self._line_of(number)))

    def _read_all(self) -> list[str]:
        ready = {descriptor for descriptor, _ in self.poll.poll(0)}
        out = []
        for number, wire in enumerate(self.wires):
            if wire._socket.fileno() not in ready and not (number == BESIDE and wire._unread):
                continue
            try:
                while wire.pending():
                    shown = str(self._shown(number, wire.read()))
                    out += [f"{number}< {line}" for line in shown.split(BETWEEN)]
                over = wire.is_over()
            except (ConnectionError, ConnectionClosedError):
                over = True
            if over:
                out.append(f"{number}< closed")
                self.left_out = OF_CLOSED + self.left_out  # keys-of-clients-that-left
                self.poll.unregister(wire._socket)
                wire.close()
                self.awaited[number].clear()
                self.queued[number].clear()
                self.wires[number] = self._connect(number)
        return out

    def _shown(self, number: int, node: Node) -> Node:
        """What a connection got, without what `hide` hides of the command that it answers."""
        awaited = self.awaited[number]
        tag = node.children[0].value if node.children and node.kind in "*>" else b""
        if node.kind == ">" or (tag in MESSAGES and len(node.children or ()) in {3, 4}):
            if awaited and awaited[0][0].lower() in SUBSCRIBING and tag.endswith(b"subscribe"):
                awaited.pop(0)
            last = node.children[-1] if node.children else node
            if last.is_null:  # flush-in-two-protocols
                node = replace(node, children=(*node.children[:-1], replace(last, kind="_", header=b"")))
            return hide_of_message(node)
        if not awaited:
            return node
        words = awaited.pop(0)
        name = words[0].upper()
        queued = self.queued[number]
        if node.value == b"QUEUED":
            queued.append(words)
            return node
        if name == "EXEC" and node.children is not None:
            if len(queued) == len(node.children):
                parts = zip(node.children, queued, strict=True)
                node = replace(
                    node, children=tuple(_hide(part, command, self.left_out) for part, command in parts)
                )
            queued.clear()
            return node
        if name in {"EXEC", "DISCARD", "RESET"} or (name == "MULTI" and node.kind != "-"):
            queued.clear()
        return _hide(node, words, self.left_out)


def _takes_long(words: Words) -> bool:
    return " ".join(words).upper().startswith(LONG) or not {SHORT, SHORT_SECONDS}.isdisjoint(words)


def _message(line: str) -> str:
    """The message that a client got by one of its patterns, or nothing: by several, they are in any order."""
    connection, is_message, rest = line.partition('$"pmessage" ')
    return connection + rest.partition(" ")[2] if is_message else ""


def _by_patterns(seen: list[str]) -> list[str]:
    """What was seen, with the patterns of one message sorted: orders-of-hash-tables."""
    grouped = groupby(seen, _message)
    return [line for message, lines in grouped for line in (sorted(lines) if message else lines)]


def _in_one_turn(acting: int, seen: list[str], *, alone: bool) -> list[str]:
    """What was seen, with all that broadcasts tell a client in one message, where one command let others run.

    Redis tells of the changes of a turn of its loop at its end; what comes behind a command that waited runs in the
    same turn there, in a later one here.
    """
    names = {line.partition("<")[0] for line in seen if "< >" not in line and "closed" not in line}
    if alone and names <= {str(acting)}:
        return seen
    told = [line for line in seen if INVALIDATE in line]
    keys = {
        name: sorted({key for line in told if line.startswith(name) for key in KEY.findall(line)[1:]})
        for name in names
    }
    merged = [f"{name}{INVALIDATE} {' '.join(keys[name])}" for name in keys if keys[name]]
    return [line for line in seen if line not in told] + merged


def _hide(node: Node, words: Words, left_out: tuple[bytes, ...]) -> Node:
    upper = [word.upper() for word in words[:2]]
    if upper in (["CLIENT", "LIST"], ["CLIENT", "INFO"]) and node.kind in "$=":
        lines = [line for line in node.value.splitlines() if b" name=%s " % CONTROL not in line]
        lines = [RESUMED.sub(rb"\1", line).replace(b" flags= ", b" flags=N ") for line in lines]
        node = hide(node.with_value(b"\n".join(lines)), words)
        return node.with_value(node.value.replace(b"\n", BETWEEN.encode()))
    if upper[0] == "INFO" and node.kind in "$=":
        lines = sorted(
            HIDDEN.sub(b"", line) for line in COUNTERS.findall(node.value) if not line.startswith(left_out)
        )
        return node.with_value(BETWEEN.encode().join(lines))
    if left_out[-1] in OF_7_0 and upper in (["OBJECT", "FREQ"], ["OBJECT", "IDLETIME"]):  # of shared numbers
        return node if node.kind != ":" else node.with_value(b"<clock>")
    if upper == ["OBJECT", "IDLETIME"] and node.kind == ":":
        return node.with_value(b"old" if int(node.value) > OLD else b"fresh")
    if upper[0] == "ROLE" and node.children and len(node.children) == 3:  # counters-of-offsets
        return replace(node, children=(node.children[0], node.children[2]))
    if upper[0] == "ROLE" and node.children and len(node.children) == 5:
        role, _, _, state, _ = node.children  # without port, offset, and how far an attempt is
        return replace(node, children=(role, state) if state.value == b"connected" else (role,))
    return hide(node, words)


def _without_common(lines: list[str], others: list[str]) -> list[str]:
    return list((Counter(lines) - Counter(others)).elements())


class Crossed(Comparison):
    """Rillet beside the real server of its version, on stories."""

    def __init__(self, mine: str, real: str) -> None:
        self._compare(Stage(mine), [Stage(real)])
        self._players = ThreadPoolExecutor(2)  # each waits most of the time for its server

    def close(self) -> None:
        self._players.shutdown()
        super().close()

    def first_difference(self, run: Run) -> Difference | None:
        got, wanted = self._players.map(lambda stage: stage.play(run), (self.mine, *self.reals))
        for (number, steps), mine, real in zip(batches(run, ALONE), got, wanted, strict=True):
            if mine != real:
                here, there = _without_common(mine, real), _without_common(real, mine)
                kinds = {
                    "reply" if "<" in line.split(" ")[0] else line.split(" ")[0] for line in here + there
                }
                kinds = kinds or {"order"}
                self.at = steps[-1]
                commands = " ".join(run[steps[0]][1]) + (
                    f" and {len(steps) - 1} more" if len(steps) > 1 else ""
                )
                what = f"{' '.join(sorted(kinds))}: after {number}: {commands}"
                shown = (here, there) if len(mine) > MANY and here + there else (mine, real)
                return Difference(what, *("\n           ".join(lines) for lines in shown))
        return None

    def shrink(self, run: Run, found: Difference, tries: int = 150) -> tuple[Run, Difference]:
        """Leave out what comes after, then ever smaller pieces, then connections."""
        run = run[: self.at + 1]
        for shorter in (run[len(BEGINNING) :], [step for step in run[:-1] if step[0] != LOOKING] + run[-1:]):
            again = self.first_difference(shorter)
            if again is not None and again.what.split(":")[0] == found.what.split(":")[0]:
                run, found = shorter[: self.at + 1], again
        run, found = super().shrink(run, found, tries)
        for number in sorted({number for number, _ in run} - {LOOKING, BESIDE}):
            for other in range(number):
                moved = [(other if each == number else each, words) for each, words in run]
                again = self.first_difference(moved)
                if again is not None and again.what.split(":")[0] == found.what.split(":")[0]:
                    run, found = moved, again
                    break
        return run, found
