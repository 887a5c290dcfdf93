"""The history of single messages for the page ("stories"): contents, owners over time, and the commands that help."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..ledger.spelling import unspell_name

Row = dict[str, Any]

Message = tuple[int, str, str]  # database, stream and id, as the ledger spells them
_MOST_FIELDS: Final = 50
_MOST_CHARACTERS: Final = 2000
BEGAN: Final = {
    "first": "delivered",
    "claimed": "claimed",
    "repeated": "delivered again",
    "nacked": "given back",
    "found": "pending when the file began",
}
ENDED: Final = {
    "acked": "acknowledged",
    "claimed": "claimed by another",
    "repeated": "delivered again",
    "nacked": "given back",
    "dropped": "message was gone",
    "dereferenced": "deleted with its references",
    None: "still pending",
}


class Field(NamedTuple):
    """A field of a message as shown on the page; ``note`` says what is hidden: bytes that are not text, a cut end."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Story:
    """The history of one message in a group, as the report tells it."""

    anchor: str  # the HTML anchor on the page
    row: Row  # the last step, with database, stream, group and id
    steps: list[Row]  # rows of ``histories``, one per delivery
    gap: int  # the number of steps left out in between
    fields: list[Field] | None  # the contents; None if unknown
    more: int = 0  # the number of fields not shown

    @property
    def state(self) -> str:
        """The final state of the message: "pending", or how its last span ended ("acked", "claimed" …)."""
        return "pending" if self.row["ended"] is None else str(self.row["ended"])

    @property
    def help(self) -> dict[str, str]:
        """Commands to copy, by their purpose: how to end a pending message, or how to look at one that is not pending."""
        row = self.row
        stream, group, entry_id = row["stream"], row["group"], row["entry_id"]
        look = {"look at it": redis_cli(row, "XRANGE", stream, entry_id, entry_id)}
        if row["ended"] is not None:
            return look
        words = ["rillet", "pipeline", "deadletter", "move", f"{stream}-dead", entry_id]
        words += ["--stream", stream, "--group", group, *(["--db", str(row["db"])] if row["db"] else [])]
        return look | {
            "give it to another consumer": redis_cli(row, "XCLAIM", stream, group, "CONSUMER", "0", entry_id),
            "keep it as a dead letter, and let it go": _line(words),
            "let it go": redis_cli(row, "XACK", stream, group, entry_id),
        }


def stories_of(
    steps: Iterable[Row], contents: Mapping[Message, list[bytes]] | None, order: Iterable[Row]
) -> list[Story]:
    """Return the stories of messages: owners over time, contents and commands that help.

    Args:
        steps: rows of ``histories``.
        contents: fields and values by message; None: do not show them.
        order: rows with one message each, in the order of the stories; a message may occur twice.
    """
    by_message: dict[tuple[Any, ...], list[Row]] = {}
    for row in steps:
        by_message.setdefault(story_key(row), []).append(row)
    stories: list[Story] = []
    for key in dict.fromkeys(map(story_key, order)):
        rows = by_message.get(key)
        if rows is None:
            continue
        last = rows[-1]
        words = None if contents is None else contents.get(message_of(last))
        fields = None if words is None else list(map(_field, words[::2], words[1::2]))
        stories.append(
            Story(
                f"message-{len(stories) + 1}",
                last,
                rows,
                last["steps"] - len(rows),
                None if fields is None else fields[:_MOST_FIELDS],
                max(len(fields or ()) - _MOST_FIELDS, 0),
            )
        )
    return stories


def story_key(row: Row) -> tuple[Any, ...]:
    """Return the identity of a story: rows with the same key share it."""
    return row["db"], row["stream"], row["group"], row["entry_id"]


def message_of(row: Row) -> Message:
    """Return the message of a row: database, stream and id."""
    return row["db"], row["stream"], row["entry_id"]


def redis_cli(row: Row, *words: str) -> str:
    """Return a redis-cli command line for a shell; the names in ``words`` are in the ledger's spelling."""
    return _line(["redis-cli", *(["-n", str(row["db"])] if row["db"] else []), *words])


def _line(words: Iterable[str]) -> str:
    return " ".join(map(_shell_word, words))


def _shell_word(spelled: str) -> str:
    """Quote a name for a shell; unprintable bytes use the form that bash, zsh and ksh read."""
    raw = unspell_name(spelled)
    text = raw.decode(errors="surrogateescape")
    if text.isprintable():
        return shlex.quote(text)
    shown = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in raw)
    return f"$'{''.join(shown)}'"


def _field(name: bytes, value: bytes) -> Field:
    text, is_text = _shown(value)
    notes = [] if is_text else ["binary"]
    if len(text) > _MOST_CHARACTERS:
        notes.append(f"{len(value):,} bytes in all")
        text = text[:_MOST_CHARACTERS] + "…"
    return Field(_shown(name)[0], text, ", ".join(notes))


def _shown(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace"), False
