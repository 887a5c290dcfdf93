"""The commands of a recording (DEBUG RECORD), with their replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ScriptedCommand:
    """A write command that a script ran."""

    position: int  # the index of the script's command in its transaction; 0 outside a transaction
    database: int  # the database that the script had selected
    keys: tuple[str, ...]  # the arguments that are keys
    words: tuple[str, ...]  # the command and its arguments; passwords are ``(redacted)``
    reply: Any  # the reply as Python values; None for an error
    error: str | None  # the text of an error reply, else None


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """One command of a client, and its reply.

    Words, keys and replies are text. Bytes that are not UTF-8 are surrogates (``word.encode(errors="surrogateescape")``).

    Attributes:
        number: the server's command counter; a later command has a higher number.
        words: the command and its arguments, as sent; passwords are ``(redacted)``.
        reply: the reply as Python values; None for an error or without a reply. Errors inside the reply of EXEC are
            exceptions.
        error: the text of an error reply, else None.
        client: the name that the client had when it sent the command; "" if none.
        client_id: the ID of its connection.
        database: the selected database.
        keys: the words that are keys.
        time: when the command ran, in milliseconds of the server's clock.
        fault: the ID of the fault that hit the command; then the client may not have received the reply. Otherwise None.
        answered: when the reply was due; None while the command is blocked, or if the client left first.
        encoded: the bytes of the reply as sent; None without a reply.
        scripted: the write commands that a script ran, in order; for EXEC, those of all scripts in the transaction. None
            if the server is an older Rillet that does not record them.
    """

    number: int
    words: tuple[str, ...]
    reply: Any
    error: str | None
    client: str
    client_id: int
    database: int
    keys: tuple[str, ...]
    time: int
    answered: int | None
    fault: int | None
    encoded: bytes | None = field(repr=False)
    scripted: tuple[ScriptedCommand, ...] | None = ()

    def is_a(self, command: str) -> bool:
        """Return True if it is this command or subcommand: ``xack``, ``XGROUP CREATE``, ``XGROUP|CREATE``."""
        names = command.upper().replace("|", " ").split()
        return [word.upper() for word in self.words[: len(names)]] == names

    def __str__(self) -> str:
        """Return one line: the client, the words, the reply."""
        if self.answered is None:
            reply = "(no reply yet)"
        elif self.encoded is None:
            reply = "(no reply)"
        else:
            reply = repr(self.reply) if self.error is None else f"(error) {self.error}"
        who = self.client or f"id={self.client_id}"
        hit = "" if self.fault is None else f" (fault {self.fault})"
        words = " ".join(map(_shown, self.words))
        return f"{self.number} {self.time} [{self.database} {who}] {words} -> {reply}{hit}"


def command_of(fields: Sequence[Any]) -> RecordedCommand:
    """Return a command from its fields in the reply to DEBUG RECORD."""
    number, time, answered, database, client_id, client, keys, words, encoded, fault, *scripted = fields
    reply, error = (None, None) if encoded is None else _reply_and_error(encoded)
    return RecordedCommand(
        number=number,
        words=tuple(map(text, words)),
        reply=reply,
        error=error,
        client=text(client),
        client_id=client_id,
        database=database,
        keys=tuple(map(text, keys)),
        time=time,
        answered=answered,
        fault=fault or None,
        encoded=encoded,
        scripted=tuple(map(_scripted_of, scripted[0])) if scripted else None,
    )


def _scripted_of(fields: Sequence[Any]) -> ScriptedCommand:
    position, database, keys, words, encoded = fields
    return ScriptedCommand(
        position, database, tuple(map(text, keys)), tuple(map(text, words)), *_reply_and_error(encoded)
    )


def _reply_and_error(encoded: bytes) -> tuple[Any, str | None]:
    reply = parse_reply(encoded)
    return (None, str(reply)) if isinstance(reply, Exception) else (reply, None)


def text(word: bytes) -> str:
    """Decode bytes as UTF-8; other bytes become surrogates."""
    return word.decode(errors="surrogateescape")


def _shown(word: str) -> str:
    return word if word.isprintable() and word and " " not in word else repr(word)


def parse_reply(data: bytes) -> Any:
    """Decode a reply to Python values, with text as ``str``; errors become exceptions, even inside arrays.

    If there are several values, such as the confirmations of SUBSCRIBE to several channels, return a list of them.
    """
    import hiredis

    incomplete = object()
    reader = hiredis.Reader(encoding="utf-8", errors="surrogateescape", notEnoughData=incomplete)
    reader.feed(data)
    values: list[Any] = []
    while (value := reader.gets()) is not incomplete:
        values.append(value)
    return values[0] if len(values) == 1 else values
