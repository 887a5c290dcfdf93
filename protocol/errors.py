"""Error replies: one exception, and the texts that several commands share."""

from __future__ import annotations

SYNTAX = b"ERR syntax error"
OOM = b"OOM command not allowed when used memory > 'maxmemory'."
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
NOT_A_FLOAT = b"ERR value is not a valid float"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NO_SUCH_KEY = b"ERR no such key"
INVALID_STREAM_ID = b"ERR Invalid stream ID specified as stream command argument"
SAME_OBJECT = b"ERR source and destination objects are the same"
INDEX_OUT_OF_RANGE = b"ERR DB index is out of range"

_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class ReplyError(Exception):
    """An error reply: raise it in a handler, and the client gets it as the reply.

    ``text``: the reply without the leading ``-`` and the line end, e.g. ``b"ERR syntax error"``. Its first word is
    the code that clients match on. CR and LF (from embedded user bytes) become spaces; trailing ones are removed.
    """

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text

    @property
    def code(self) -> bytes:
        """The first word, for example ``b"NOGROUP"``."""
        return self.text.split(b" ", 1)[0]

    @property
    def encoded(self) -> bytes:
        """The error as RESP bytes, the same in both protocols."""
        return b"-%b\r\n" % self.text.rstrip(b"\r\n").translate(_LINE_BREAKS)


# Rillet's own error: memory ran out before the command had changed anything.
NO_MEMORY = b"OOM not enough memory for the command"


def shown(word: bytes) -> bytes:
    """Return a client's word as Redis prints it in error texts: up to the first NUL."""
    return word.partition(b"\0")[0]


def wrong_arity(name: str) -> ReplyError:
    """Return the arity error; ``name`` is the lower-case full name (``xgroup|create``)."""
    return ReplyError(b"ERR wrong number of arguments for '%b' command" % name.encode())


def wrong_subcommand_arguments(argv: list[bytes]) -> ReplyError:
    """Return the error for a subcommand with unknown options or a wrong number of words."""
    return ReplyError(
        b"ERR unknown subcommand or wrong number of arguments for '%b'. Try %b HELP."
        % (shown(argv[1])[:128], argv[0].upper())
    )
