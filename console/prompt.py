"""The prompt: parse a line like redis-cli, decide whether it may be sent, and show the reply with its RESP3 types."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from redis.exceptions import RedisError

from . import replies, resp
from .clients import HIDDEN, SECRETS, hidden
from .connection import Link, close, command
from .directives import SHOWN
from .names import command_line, plain, split_line
from .read_only import READING

REPLY_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 900.0
MULTI_IDLE_SECONDS: Final = 3600.0  # within MULTI
SESSIONS: Final = 16
CLOSED_NAMES: Final = 10_000  # of pages whose connection was closed, which are remembered
NAME_CHARACTERS: Final = 64
QUESTIONS: Final = 32  # that wait for their answer
LINE_CHARACTERS: Final = 100_000
SUGGESTIONS: Final = 8
# Their replies never end, or never come, so a page cannot show them.
_UNENDING: Final = frozenset(
    """CLIENT|REPLY MONITOR PSUBSCRIBE PSYNC PUNSUBSCRIBE SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE SYNC UNSUBSCRIBE""".split()
)
# Commands without the flag "readonly", because they have no key, that change at most their own connection.
_HARMLESS: Final = (READING - {"DEBUG|CLOCK", "DEBUG|FAULT", "DEBUG|RECORD"}) | frozenset(
    """ACL|CAT ACL|WHOAMI ASKING AUTH CLIENT|GETNAME CLIENT|ID CLIENT|INFO CLUSTER|INFO CLUSTER|KEYSLOT CLUSTER|MYID
    CLUSTER|NODES CLUSTER|SHARDS CLUSTER|SLOTS COMMAND|COUNT COMMAND|GETKEYS CONFIG|GET DISCARD ECHO EXEC HELLO LASTSAVE
    LATENCY|HISTOGRAM LATENCY|HISTORY LATENCY|LATEST LOLWUT MEMORY|DOCTOR MEMORY|STATS MULTI PING PUBSUB|CHANNELS
    PUBSUB|NUMPAT PUBSUB|NUMSUB QUIT READONLY RESET ROLE SELECT UNWATCH WATCH""".split()
)
# They destroy data irrecoverably, though no flag says so.
_LOSING: Final = frozenset(
    """FUNCTION|DELETE FUNCTION|FLUSH FUNCTION|RESTORE SCRIPT|FLUSH XGROUP|DELCONSUMER XGROUP|DESTROY""".split()
)
# No flag says what a script does: a script flagged read-only may block the server forever, or reset its slow log.
_SCRIPTS: Final = frozenset({"EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO"})
_HIDDEN: Final = resp.Reply("string", HIDDEN, (), len(HIDDEN))
# In a line of ACL LIST, a rule that does not begin like a known one may be a password.
_RULE: Final = re.compile(rb"(?<= )(?<!\Auser )(?![a-z~%&+@()-])[^ ]+")
_CUT: Final = f"… The reply was cut: a page shows {resp.TOTAL_TEXT_BYTES // 1000} kB of text and {resp.TOTAL_ITEMS:,} items of it."


@dataclass(frozen=True, slots=True)
class Rule:
    """A command as COMMAND INFO describes it."""

    name: str  # in upper case; a subcommand is ``XGROUP|CREATE``
    flags: frozenset[str] | None  # including the ACL categories (``@dangerous``); None: unknown
    problem: str = ""  # the server's error reply in place of flags; empty if it does not know the command

    @property
    def title(self) -> str:
        """The command's name as a page shows it: printable and cut, because anything may have been typed."""
        return plain(self.name.replace("|", " "))[:NAME_CHARACTERS]

    @property
    def changes(self) -> bool:
        """Whether the command may change data: True unless it is known to only read.

        The flags decide; the name does so only if there are none that tell.
        """
        if self.flags is None or "write" in self.flags or self.name in _SCRIPTS:
            return True
        return "readonly" not in self.flags and self.name not in _HARMLESS and not self.name.endswith("|HELP")

    @property
    def reads_data(self) -> bool:
        """Whether the command's reply contains data of keys.

        Such data may look like a directive, whose value would be hidden.
        """
        return self.flags is not None and not self.flags.isdisjoint({"readonly", "write"})

    @property
    def is_dangerous(self) -> bool:
        """Whether to ask for confirmation: administration, commands that block the server or lose data, and unknown ones."""
        if self.flags is None or self.name in _LOSING or self.name in _SCRIPTS:
            return True
        if self.name in _HARMLESS or self.name.endswith("|HELP"):
            return False
        return bool(self.flags & {"admin", "@dangerous"})

    @property
    def is_beyond_undoing(self) -> bool:
        """Whether it may destroy data irrecoverably, not only read or block the server."""
        return self.flags is None or "write" in self.flags or self.name in _LOSING or self.name in _SCRIPTS

    @property
    def unknown(self) -> str:
        """A text that says why the command's flags are unknown."""
        if self.problem:
            return f"the server does not say what {self.title} does ({self.problem})"
        return f"this server does not know {self.title}"


async def rule_of(link: Link, words: Sequence[bytes]) -> Rule:
    """Ask the server for the flags of a command (COMMAND INFO), and return its rule."""
    first = words[0].upper().decode("latin-1")
    both = f"{first}|{words[1].upper().decode('latin-1')}" if len(words) > 1 else first
    reply = (await link.send([command("COMMAND", "INFO", words[0])]))[0]
    if isinstance(reply, RedisError):
        return Rule(both if both in _UNENDING else first, None, plain(str(reply))[:300])
    found = next(iter(replies.listed(reply)), None)
    if not found:
        return Rule(first, None)
    parts = {part[0].upper().decode("latin-1"): part for part in (found[9] if len(found) > 9 else ())}
    if both in parts:
        return Rule(both, _flags(parts[both]))
    # Before version 7 a container has the flags of all its subcommands.
    contains = bool(parts) or both in _HARMLESS or both in _LOSING or both in _UNENDING
    return Rule(both if contains else first, _flags(found))


def _flags(info: Any) -> frozenset[str]:
    categories = info[6] if len(info) > 6 else ()
    return frozenset(word.decode("latin-1").lower() for word in (*info[2], *categories))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A line typed at the prompt, and its outcome."""

    line: str  # without passwords
    kind: str  # "reply", "error", "refused" or "asked" (a confirmation is needed)
    text: str
    took: float = 0.0  # milliseconds until the reply
    changes: bool = False  # whether it was sent and may have changed data
    nonce: str = ""  # identifies the question; the confirmation repeats it
    place: str = ""  # where the next line will run: ``db5``, within MULTI ``db5(TX)``


class _LostError(Exception):
    """The connection was lost, and with it what the page had set on it."""


@dataclass(slots=True)
class _State:
    """The state that the lines of a session have set on their connection."""

    database: int
    queued: list[Sequence[bytes]] | None = None  # the commands since MULTI; None: not within MULTI
    # The names of irrecoverable commands; each was confirmed when it was queued.
    asked: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The prompt of redis-cli in this state: ``db5``, or within MULTI ``db5(TX)``."""
        return f"db{self.database}" + ("(TX)" if self.queued is not None else "")

    def follow(self, words: Sequence[bytes], reply: resp.Reply) -> None:
        """Apply the effect of a command to this state."""
        name = words[0].upper()
        if self.queued is not None and reply.text == b"QUEUED":
            self.queued.append(words)
        elif name == b"EXEC" and self.queued is not None:
            for at, queued in enumerate(self.queued if reply.kind == "array" else ()):
                is_done = at >= len(reply.items) or reply.items[at].kind == "status"
                if is_done and queued[0].upper() == b"SELECT" and queued[1].isdigit():
                    self.database = int(queued[1])
            if reply.kind != "error" or reply.text.startswith(b"EXECABORT"):
                self.queued = None
        elif reply.kind != "error":
            if name == b"SELECT":
                self.database = int(words[1])
            elif name == b"MULTI":
                self.queued, self.asked = [], []
            elif name in {b"DISCARD", b"RESET"}:
                self.queued = None
            if name == b"RESET":
                self.database = 0


class _Session:
    """A connection with RESP3, which keeps its MULTI and its SELECT between lines."""

    def __init__(self, link: Link, *, is_lost: bool) -> None:
        self.used = time.monotonic()
        self.lock = asyncio.Lock()
        self.users = 0  # the number of lines being sent or waiting
        self.is_lost = is_lost  # whether an earlier connection was closed, and no line has reported that yet
        self.state = _State(link.database)
        self._first = link.database
        self._client = link.another(3)
        self._connection: Any = None

    def may_go(self, seconds: float) -> bool:
        """Return True if its connection may be closed: no line for this many seconds, or within MULTI for longer."""
        if self.state.queued is not None:
            seconds = MULTI_IDLE_SECONDS
        return not self.users and time.monotonic() - self.used >= seconds

    async def ask(self, words: Sequence[bytes], budget: resp.Budget) -> list[resp.Reply]:
        """Send a command; return the pushes and attributes before its reply, and the reply.

        Raises _LostError: nothing was sent, because an earlier connection was closed; the next line will be sent.
        """
        # redis-py has read all replies to its greeting. From here on the console needs types that redis-py's parser
        # drops.
        connection = self._connection
        if connection is not None and (not connection.is_connected or connection._reader.at_eof()):  # noqa: SLF001
            await self.close()
        if self._connection is None:
            self._connection = await self._client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        if self.is_lost:
            self.is_lost = False
            raise _LostError
        await self._connection.send_command(*words)
        stream: asyncio.StreamReader = self._connection._reader  # noqa: SLF001
        found = [await resp.read(stream, budget)]
        while found[-1].kind in {"push", "attribute"}:
            if not budget.has_room():
                found.pop()
            found.append(await resp.read(stream, budget))
        self.state.follow(words, found[-1])
        if words[0].upper() == b"QUIT":
            await self.close()
        return found

    async def close(self) -> None:
        """Close the connection; the next line opens a new one."""
        if self._connection is not None:
            self.is_lost = True
            self.state = _State(self._first)
            await self._connection.disconnect(nowait=True)
            await self._client.connection_pool.release(self._connection)
            self._connection = None
        await close(self._client)


class Prompt:
    """The prompts of all open pages. Each has its own connection; a new one replaces the oldest."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._evicted: list[_Session] = []
        self._closed: OrderedDict[str, None] = OrderedDict()  # names of sessions that were evicted
        # Lines to confirm, each with its session: the page does not hold their passwords.
        self._questions: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._names: list[str] = []
        self._server = ""  # whose names they are

    async def run(self, session: str, line: str, *, read_only: bool, sure: str = "") -> Exchange:
        """Send a line, unless it is refused or needs a confirmation; return the line and its outcome.

        Raises GoneError: the server cannot be reached.

        Args:
            read_only: refuse commands that may change data.
            sure: the nonce of a question; then its line is sent instead.
        """
        session = session[:NAME_CHARACTERS]
        if sure:
            asked, line = self._questions.pop(sure, ("", ""))
            if asked != session or not line:
                exchange = Exchange(
                    "", "refused", "Not sent: this question has expired. Type the line again."
                )
            else:
                exchange = await self._run(session, line, read_only=read_only, is_sure=True)
        else:
            exchange = await self._run(session, line, read_only=read_only, is_sure=False)
        known = self._sessions.get(session)
        return replace(exchange, place=(known.state if known else _State(self._link.database)).place)

    async def _run(self, session: str, line: str, *, read_only: bool, is_sure: bool) -> Exchange:
        try:
            words = split_line(line[:LINE_CHARACTERS])
        except ValueError as error:  # it may have a password
            return Exchange("", "refused", f"Not sent: {error}.")
        if not words or len(line) > LINE_CHARACTERS:
            return Exchange("", "refused", "Not sent: nothing was typed, or too much.")
        shown = command_line(hidden(words))
        rule = await rule_of(self._link.node, words)
        name = rule.title
        if rule.name in _UNENDING:
            return Exchange(shown, "refused", f"Not sent: {name} has no reply that a page could show.")
        if read_only and rule.changes:
            why = rule.unknown if rule.flags is None else f"{name} may change something"
            return Exchange(shown, "refused", f"Not sent: {why}, and the console is read-only.")
        open_one = self._sessions.get(session)
        if rule.is_dangerous and not is_sure:
            return Exchange(shown, "asked", _why(rule), nonce=self._question(session, line))
        if (
            rule.name == "EXEC"
            and not is_sure
            and open_one is not None
            and open_one.state.queued
            and open_one.state.asked
        ):
            return Exchange(shown, "asked", _why_exec(open_one.state), nonce=self._question(session, line))
        found = self._session(session)
        if found is None:
            return Exchange(
                shown,
                "refused",
                f"Not sent: {SESSIONS} prompts are open, each in MULTI or waiting for a reply. End one of them first.",
            )
        found.users += 1
        try:
            await self._sweep()
            exchange = await self._send(found, words, shown, reads_data=rule.reads_data, read_only=read_only)
            if rule.is_dangerous and rule.is_beyond_undoing and found.state.queued:
                found.state.asked.append(name)
        finally:
            found.users -= 1
        return replace(exchange, changes=rule.changes and exchange.kind != "refused")

    def _question(self, session: str, line: str) -> str:
        nonce = secrets.token_urlsafe(12)
        self._questions[nonce] = session, line
        while len(self._questions) > QUESTIONS:
            self._questions.popitem(last=False)
        return nonce

    async def _send(
        self,
        session: _Session,
        words: Sequence[bytes],
        shown: str,
        *,
        reads_data: bool = False,
        read_only: bool = False,
    ) -> Exchange:
        began = time.monotonic()
        budget = resp.Budget()
        async with session.lock:
            queued = session.state.queued or ()
            try:
                async with asyncio.timeout(REPLY_SECONDS):
                    found = await session.ask(words, budget)
            except _LostError:
                return Exchange(
                    shown,
                    "refused",
                    "Not sent: the connection of this prompt was closed, and this is a new connection: "
                    f"database {self._link.database}, no MULTI, no WATCH. Send the line again.",
                )
            except TimeoutError:
                await session.close()
                return Exchange(
                    shown, "error", f"No reply within {REPLY_SECONDS:.0f} seconds: the connection was closed."
                )
            except (RedisError, OSError, EOFError, ValueError, resp.ProtocolError) as error:
                await session.close()
                return Exchange(shown, "error", f"The connection ended: {plain(str(error))[:300]}")
        took = (time.monotonic() - began) * 1000
        if not reads_data:
            found = [_without_secrets(reply) for reply in found]
        found[-1] = _without_values(found[-1], words, queued, read_only=read_only)
        kind = "error" if found[-1].kind == "error" else "reply"
        lines = [resp.text(reply) for reply in found]
        if budget.cut:
            lines.append(_CUT)
        return Exchange(shown, kind, "\n".join(lines), took)

    def _session(self, name: str) -> _Session | None:
        """Return the session of a page, and evict idle ones; None: there are too many."""
        known = self._sessions.get(name)
        self._evict(
            [key for key, one in self._sessions.items() if one.may_go(IDLE_SECONDS) and one is not known]
        )
        if known is None and len(self._sessions) >= SESSIONS:
            oldest = next((key for key, one in self._sessions.items() if one.may_go(0)), None)
            if oldest is None:
                return None
            self._evict([oldest])
        if known is None:
            known = self._sessions[name] = _Session(self._link, is_lost=name in self._closed)
            self._closed.pop(name, None)
        self._sessions.move_to_end(name)
        known.used = time.monotonic()
        return known

    def _evict(self, names: Iterable[str]) -> None:
        for name in names:
            self._evicted.append(self._sessions.pop(name))
            self._closed[name] = None
        while len(self._closed) > CLOSED_NAMES:
            self._closed.popitem(last=False)

    async def close_idle(self) -> None:
        """Close the connections that have been idle for long; the next command typed at such a prompt says so."""
        self._evict([name for name, one in self._sessions.items() if one.may_go(IDLE_SECONDS)])
        await self._sweep()

    async def _sweep(self) -> None:
        while self._evicted:
            await self._evicted.pop().close()

    async def close(self) -> None:
        """Close the connections of all prompts."""
        self._evicted += self._sessions.values()
        self._sessions.clear()
        await self._sweep()

    # Help

    async def help(self, line: str, server: str) -> Help:
        """Return completions of a line, and the syntax of its command on this kind of server."""
        typed = re.findall(r"\S+", line[:200].upper())
        if server != self._server:
            self._names, self._server = [], server
        names = await self._known()
        is_open = bool(typed) and not line[-1:].isspace()
        return Help(
            *await self._usage(typed, names), tuple(_completions(typed, names, is_open=is_open)[:SUGGESTIONS])
        )

    async def _known(self) -> list[str]:
        """Return the names of all commands, with subcommands as ``XGROUP CREATE``; read once."""
        if not self._names:
            listed = (await self._link.node.send([command("COMMAND", "LIST")]))[0]
            if isinstance(listed, RedisError):  # before version 7
                listed = [
                    item[0] for item in replies.listed((await self._link.node.send([command("COMMAND")]))[0])
                ]
            self._names = sorted(plain(name.decode("latin-1")).upper().replace("|", " ") for name in listed)
        return self._names

    async def _usage(self, typed: Sequence[str], names: Iterable[str]) -> tuple[str, str, str]:
        name = " ".join(typed[:2]) if " ".join(typed[:2]) in names else "".join(typed[:1])
        if name not in names:
            return "", "", ""
        asked = command("COMMAND", "DOCS", name.replace(" ", "|"))
        docs = (await self._link.node.send([asked]))[0]
        if isinstance(docs, RedisError) or not docs:
            return name, "", "This server has no documentation of its commands: it comes with version 7."
        said = replies.pairs(docs[1])
        arguments = " ".join(_argument(replies.pairs(one)) for one in said.get("arguments", ()))
        since = said.get("since", b"").decode()
        summary = plain(said.get("summary", b"").decode("utf-8", "replace"))
        return name, plain(arguments), f"{summary} Since {since}." if since else summary


@dataclass(frozen=True, slots=True)
class Help:
    """Help for a line being typed: the command, its arguments, its summary, and completions."""

    name: str
    arguments: str
    summary: str
    completions: tuple[str, ...]


def _completions(typed: Sequence[str], names: Iterable[str], *, is_open: bool) -> list[str]:
    """Return the names that begin with the typed words, while the line is only a name."""
    if not typed or len(typed) > 2:
        return []
    begin = " ".join(typed) + ("" if is_open else " ")
    return [
        name
        for name in names
        if name.startswith(begin) and name != begin and (" " in begin or " " not in name)
    ]


def _argument(said: dict[str, Any]) -> str:
    """Return an argument in documentation syntax: ``[MAXLEN | MINID] key``."""
    token = said.get("token", b"").decode("utf-8", "replace")
    kind = said["type"]
    flags = {flag.decode() for flag in said.get("flags", ())}
    if kind in {b"oneof", b"block"}:
        parts = [_argument(replies.pairs(one)) for one in said["arguments"]]
        body = (" | " if kind == b"oneof" else " ").join(parts)
        if kind == b"oneof" and "optional" not in flags:
            body = f"<{body}>"
    else:
        body = (
            "" if kind == b"pure-token" else said.get("display_text", said["name"]).decode("utf-8", "replace")
        )
    text = " ".join(filter(None, (token, body)))
    if "multiple" in flags:
        text = f"{text} [{text if 'multiple_token' in flags else body} ...]"
    return f"[{text}]" if "optional" in flags else text


def _why(rule: Rule) -> str:
    name = rule.title
    if rule.flags is None:
        return f"{rule.unknown[0].upper()}{rule.unknown[1:]}."
    if rule.name in _LOSING and rule.name.startswith("XGROUP"):
        return f"{name} drops pending entries, which are not delivered again."
    if rule.name in _LOSING:
        return f"{name} drops or replaces scripts or functions, of which the server keeps no copy."
    if rule.name in _SCRIPTS:
        return f"{name} runs a script, and no flag says what it does: it may change anything, or block the server."
    flags = rule.flags
    if "write" in flags:
        return f"{name} may change much at once, and cannot be undone."
    if "admin" in flags:
        return f"{name} changes how the server works, or reads data about all its clients."
    return f"{name} may block the server, or concerns all its clients."


def _why_exec(state: _State) -> str:
    count = len(state.queued or ())
    names = ", ".join(dict.fromkeys(state.asked))
    return f"EXEC runs the {count} queued command{'s' if count > 1 else ''}, among them {names}."


def _without_values(
    reply: resp.Reply, words: Sequence[bytes], queued: Sequence[Sequence[bytes]], *, read_only: bool
) -> resp.Reply:
    """Hide the possibly secret parts of a command's reply, even within EXEC.

    Passwords in SLOWLOG are hidden, as on other pages. In a read-only console CONFIG GET shows only directives that
    are known to be harmless.
    """
    upper = [word.upper() for word in words[:3]]
    if upper == [b"EXEC"]:
        items = list(reply.items)
        for at, (item, each) in enumerate(zip(items, queued, strict=False)):
            items[at] = _without_values(item, each, (), read_only=read_only)
        return replace(reply, items=tuple(items))
    if upper[:2] == [b"SLOWLOG", b"GET"]:
        return replace(reply, items=tuple(map(_without_passwords, reply.items)))
    if read_only and (upper[:2] == [b"CONFIG", b"GET"] or upper == [b"SENTINEL", b"CONFIG", b"GET"]):
        items = list(reply.items)
        for at in range(0, len(items) - 1, 2):
            if items[at].text.lower() not in SHOWN and items[at + 1].text:
                items[at + 1] = _HIDDEN
        return replace(reply, items=tuple(items))
    return reply


def _without_passwords(entry: resp.Reply) -> resp.Reply:
    """Hide the passwords in an entry of the slow log, whose fourth part is the command."""
    parts = [
        replace(part, items=_words_without_passwords(part.items)) if part.kind == "array" else part
        for part in entry.items
    ]
    return replace(entry, items=tuple(parts))


def _words_without_passwords(words: Sequence[resp.Reply]) -> tuple[resp.Reply, ...]:
    shown = hidden([word.text for word in words])
    return tuple(word if text is word.text else _HIDDEN for word, text in zip(words, shown, strict=True))


def _without_secrets(reply: resp.Reply) -> resp.Reply:
    """Hide passwords and their hashes in replies of CONFIG GET, ACL LIST and ACL GETUSER, even within EXEC.

    Names and values are a map or, before HELLO 3, alternate in an array.
    """
    items = [_without_secrets(item) for item in reply.items]
    for at in range(0, len(items) - 1, 2):
        name, value = items[at].text.lower(), items[at + 1]
        if name in SECRETS and value.text:
            items[at + 1] = _HIDDEN
        elif name == b"passwords" and value.items:
            items[at + 1] = replace(value, items=(_HIDDEN,) * len(value.items))
    text = _RULE.sub(b"#" + HIDDEN, reply.text) if reply.text.startswith(b"user ") else reply.text
    return resp.Reply(reply.kind, text, tuple(items), reply.size + len(text) - len(reply.text))
