"""One Lua state, and what drives it. Nothing else in Rillet touches lupa, which is imported when a script needs it."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...protocol.errors import ReplyError
from .conversions import format_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UNAVAILABLE: Final = b"ERR scripting is not available in this server: the Python package lupa is not installed (pip install lupa)"
# Lua's C stack holds about 8000 values; what is more travels in tables.
_MOST_WORDS: Final = 1000
_LIBRARIES: Final = ("cjson", "cmsgpack", "struct", "bit")
# drand48(3).
_MULTIPLIER: Final = 0x5DEECE66D
_INCREMENT: Final = 0xB
_FIRST_STATE: Final = 0x1234ABCD330E
_LOW_SEED: Final = 0x330E
_MASK_48: Final = (1 << 48) - 1
_RANGE_31: Final = (1 << 31) - 1


class ScriptError(Exception):
    """An error that a script gets from one of the server's functions.

    Args:
        text: as in an error reply, its code first.
        counted: the statistics have it already.
    """

    def __init__(self, text: bytes, *, counted: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.counted = counted


class FailedScriptError(Exception):
    """A script ended with an error.

    Args:
        text: as in an error reply.
        source: the chunk that it happened in, with its ``@``; None if that is unknown.
        line: in that chunk.
        counted: the statistics have the error already.
    """

    def __init__(self, text: bytes, source: bytes | None, line: int | None, *, counted: bool) -> None:
        super().__init__(text)
        self.text = text
        self.source = source
        self.line = line
        self.counted = counted

    def reply(self, name: bytes) -> bytes:
        """The text that the client is told: with the script's name (or SHA1) and the place."""
        if self.source is None or not self.line:
            return self.text
        return b"%b script: %b, on %b:%d." % (self.text, name, self.source, self.line)


class Interpreter:
    """A Lua state with Redis' globals.

    Args:
        functions: what stands in the table ``redis``, beside what is Lua itself; raises ``ScriptError``.
        constants: the values there.
        interrupt: called now and then while a script runs; the text it returns ends the script.
        resp: the protocol that redis.setresp chose.
        register: takes a function of a library; with it this is the state of functions.

    Raises:
        ReplyError: lupa is not installed.
    """

    def __init__(
        self,
        functions: Mapping[bytes, Callable[..., Any]],
        constants: Mapping[bytes, object],
        interrupt: Callable[[], bytes | None],
        resp: Callable[[], int],
        *,
        register: Callable[..., None] | None = None,
    ) -> None:
        try:
            from lupa import lua51
        except ImportError as error:
            raise ReplyError(UNAVAILABLE) from error
        self._lua_error: type[Exception] = lua51.LuaError
        self._lua = lua = lua51.LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        self._random = _FIRST_STATE
        self._signal = ScriptError(b"")
        self._error: ScriptError | None = None
        self.table: Callable[..., Any] = lua.table_from
        loadstring = lua.eval(b"loadstring")
        folder = Path(__file__).parent

        def chunk(name: str) -> Any:
            return loadstring((folder / f"{name}.lua").read_bytes(), b"=rillet")

        host: dict[bytes, object] = {
            b"redis": self.table({name: self._raising(function) for name, function in functions.items()}),
            b"constants": self.table(dict(constants)),
            b"interrupt": interrupt,
            b"resp": resp,
            b"describe": self._describe,
            b"double": format_number,
            b"random": self._next_random,
            b"seed": self.seed,
            b"pack_float": _pack_float,
            b"unpack_float": _unpack_float,
        }
        if register is not None:
            host[b"register"] = self._raising(register)
        driver = chunk("sandbox")(
            self.table(host),
            self.table({name.encode(): chunk(name) for name in _LIBRARIES}),
            chunk("replies")(),
        )
        self._compile = driver[b"compile"]
        self._run = driver[b"run"]
        self._run_tables = driver[b"run_tables"]
        self._call = driver[b"call"]
        self._load = driver[b"load"]
        self._memory = driver[b"memory"]

    # Errors on their way through Lua

    def _raising(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function for Lua whose errors are one and the same object there.

        lupa never forgets an object that it has shown to Lua; whoever catches the error asks at once what it is.
        """

        def call(*values: object) -> Any:
            try:
                return function(*values)
            except ScriptError as error:
                self._error = error
            raise self._signal.with_traceback(None)

        return call

    def _describe(self, error: object) -> tuple[bytes, bool] | None:
        """The text of an exception that went through Lua, and whether it is counted; None for anything else."""
        if error is self._signal and self._error is not None:
            return self._error.text, self._error.counted
        if isinstance(error, Exception):
            return b"ERR internal error: " + repr(error).encode(), False
        return None

    # Running

    def compile(self, code: bytes, name: bytes) -> Any:
        """A function of Lua from source code; ``name`` stands in error texts.

        Raises:
            SyntaxError: with Lua's message as bytes.
        """
        compiled = self._compile(code, name)
        if type(compiled) is tuple:
            raise SyntaxError(compiled[1])
        return compiled

    def run(self, function: Any, resp: int, keys: int, words: Sequence[bytes]) -> bytes:
        """Run a script of EVAL and return its reply, encoded; the first ``keys`` of the words are its KEYS.

        Raises:
            FailedScriptError: it ended with an error.
        """
        if len(words) <= _MOST_WORDS:
            return self._ended(self._run(function, resp, keys, *words))
        table = self.table
        return self._ended(
            self._run_tables(function, resp, table(list(words[:keys])), table(list(words[keys:])))
        )

    def call(self, function: Any, resp: int, keys: int, words: Sequence[bytes]) -> bytes:
        """Call a function of a library: as ``run``, with the keys and the other words as its two parameters."""
        table = self.table
        return self._ended(self._call(function, resp, table(list(words[:keys])), table(list(words[keys:]))))

    def load(self, function: Any) -> None:
        """Run the code of a library.

        Raises:
            FailedScriptError: it ended with an error.
        """
        self._ended(self._load(function))

    @staticmethod
    def _ended(result: Any) -> bytes:
        if type(result) is tuple:
            _, text, source, line, counted = result
            raise FailedScriptError(text, source, line, counted=bool(counted))
        reply: bytes = result
        return reply

    @property
    def memory(self) -> int:
        """Bytes that the state uses."""
        return int(self._memory())

    # math.random

    def seed(self, value: float) -> None:
        """As math.randomseed."""
        low = math.trunc(value) & 0xFFFFFFFF if math.isfinite(value) else 0
        self._random = low << 16 | _LOW_SEED

    def _next_random(self) -> float:
        self._random = (self._random * _MULTIPLIER + _INCREMENT) & _MASK_48
        return (self._random >> 17) % _RANGE_31 / _RANGE_31


def _pack_float(value: float, size: int, little: bool) -> bytes:
    kind = ("<" if little else ">") + ("f" if size == 4 else "d")
    try:
        return struct.pack(kind, value)
    except OverflowError:
        return struct.pack(kind, math.copysign(math.inf, value))


def _unpack_float(data: bytes, little: bool) -> float:
    kind = ("<" if little else ">") + ("f" if len(data) == 4 else "d")
    number: float = struct.unpack(kind, data)[0]
    return number
