"""One Lua state and its driver. Only this file uses lupa, and imports it when a script needs it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ....protocol.errors import ReplyError
from .conversions import write_double

UNAVAILABLE: Final = b"ERR scripting is not available in this server: the Python package lupa is not installed (pip install lupa)"
NOT_ENOUGH_MEMORY: Final = b"ERR not enough memory"
# Lua's C stack holds about 8000 values; more values are passed in tables.
_MOST_WORDS: Final = 1000
_LIBRARIES: Final = ("varargs", "natives", "cjson", "cmsgpack", "struct", "bit")
# Memory beyond the limit of scripts, for values that the server itself puts into the state, where Lua cannot raise an
# error. It holds a call with 8000 tables as arguments, and replies that are too small for a check of the memory.
_RESERVE: Final = 1 << 20
_BULK: Final = ord("$")
_LEAST_MEMORY: Final = 4 << 20
_FEW_BYTES: Final = 1 << 16
_OUT_OF_MEMORY: Final = b"not enough memory"
# A table in another table, with its node, on a 64-bit machine, at the moment when the outer table grows.
_BYTES_PER_VALUE: Final = 200
# drand48(3).
_MULTIPLIER: Final = 0x5DEECE66D
_INCREMENT: Final = 0xB
_FIRST_STATE: Final = 0x1234ABCD330E
_LOW_SEED: Final = 0x330E
_MASK_48: Final = (1 << 48) - 1
_RANGE_31: Final = (1 << 31) - 1


class ScriptError(Exception):
    """An error that a Python function raises for the script that calls it.

    Args:
        text: as in an error reply, its code first.
        counted: the statistics already count it.
    """

    def __init__(self, text: bytes, *, counted: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.counted = counted


class ScriptEndsError(Exception):
    """Ends a script that was killed or stopped while it runs a Python function; ``Interpreter.poll`` raises it there."""


class FailedScriptError(Exception):
    """A script ended with an error.

    Args:
        text: as in an error reply.
        source: the chunk in which the error occurred, with its ``@``; None if it is unknown.
        line: the line in that chunk.
        counted: the statistics already count the error.
    """

    def __init__(self, text: bytes, source: bytes | None, line: int | None, *, counted: bool) -> None:
        super().__init__(text)
        self.text = text
        self.source = source
        self.line = line
        self.counted = counted

    def reply(self, name: bytes) -> bytes:
        """Return the error text for the client, up to the first NUL, with ``name`` (function or SHA1) and the position."""
        text = self.text.partition(b"\0")[0]
        if self.source is None or not self.line:
            return text
        return b"%b script: %b, on %b:%d." % (text, name, self.source, self.line)


def _ignore(_text: bytes) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Dialect:
    """The features of a Lua state that depend on the emulated version of Redis."""

    write_double: Callable[[float], bytes] = write_double  # formats the number of a ``{double=…}``
    signs_zeros: bool = False  # redis.call writes -0 with its sign (before 7.2)
    has_os: bool = True  # ``os.clock`` exists (7.2)
    has_array_mt: bool = True  # ``cjson.decode_array_with_array_mt`` exists (8.4)


_NEWEST: Final = Dialect()


class Interpreter:
    """A Lua state with Redis' globals.

    Raises ReplyError: lupa is not installed.

    Args:
        functions: the functions of the table ``redis`` written in Python; they raise ``ScriptError``.
        constants: the values of that table.
        interrupt: called now and then while a script runs. A returned text ends the script; a number is the
            milliseconds since the last call.
        resp: the protocol that redis.setresp chose.
        own_error: receives the text of each error in a reply that the statistics do not count yet.
        register: receives a function of a library; given only for the state of functions.
        most_memory: the most bytes that scripts may take, 0 for no limit.
        dialect: the features that depend on the version of Redis.
    """

    def __init__(
        self,
        functions: Mapping[bytes, Callable[..., Any]],
        constants: Mapping[bytes, object],
        interrupt: Callable[[], bytes | float | None],
        resp: Callable[[], int],
        *,
        own_error: Callable[[bytes], None] = _ignore,
        register: Callable[..., None] | None = None,
        most_memory: int = 0,
        dialect: Dialect = _NEWEST,
    ) -> None:
        try:
            from lupa import lua51
        except ImportError as error:
            raise ReplyError(UNAVAILABLE) from error
        self._lua_error: type[Exception] = lua51.LuaError
        self._lua = lua = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_deny,
            max_memory=0,
        )
        # The libraries need this much memory. CONFIG SET refuses a lower limit, but a configuration file may contain one.
        self._most_memory = most_memory = max(most_memory, _LEAST_MEMORY) if most_memory else 0
        self._interrupt = interrupt
        self._random = _FIRST_STATE
        # Why the running script must end: a text, or an exception of a host function.
        self._stopped: bytes | BaseException | None = None
        # The state can no longer be used: its data leaves too little memory, or it failed.
        self.exhausted = False
        self.on_exhausted: Callable[[], None] | None = None  # called when ``exhausted`` becomes True
        self.table: Callable[..., Any] = lua.table_from
        loadstring = lua.eval(b"loadstring")
        folder = Path(__file__).parent

        def chunk(name: str) -> Any:
            return loadstring((folder / f"{name}.lua").read_bytes(), b"=rillet")

        host: dict[bytes, object] = {
            b"redis": self.table({name: self._hosted(function) for name, function in functions.items()}),
            b"constants": self.table(dict(constants)),
            b"interrupt": self._poll,
            b"resp": self._hosted(resp),
            b"double": self._hosted(dialect.write_double),
            b"own_error": self._hosted(own_error),
            b"signs_zeros": dialect.signs_zeros,
            b"has_os": dialect.has_os,
            b"has_array_mt": dialect.has_array_mt,
            b"call_many": self._hosted(
                lambda words, count: functions[b"call"](*[words[i] for i in range(1, int(count) + 1)])
            ),
            b"random": self._hosted(self._next_random),
            b"seed": self._hosted(self.seed),
            b"pack_float": self._hosted(_pack_float),
            b"unpack_float": self._hosted(_unpack_float),
        }
        self._has_functions = register is not None
        if register is not None:
            host[b"register"] = self._hosted(register)
        driver = chunk("sandbox")(
            self.table(host),
            self.table({name.encode(): chunk(name) for name in _LIBRARIES}),
            chunk("replies")(),
            most_memory / 1024 if most_memory else math.inf,
        )
        self._compile = driver[b"compile"]
        self._run = driver[b"run"]
        self._run_tables = driver[b"run_tables"]
        self._call = driver[b"call"]
        self._load = driver[b"load"]
        self._collect = driver[b"collect"]
        self._memory = driver[b"memory"]
        if most_memory:
            lua.set_max_memory(most_memory + _RESERVE, total=True)

    # Functions that Lua calls: no exception leaves them, because it would be a value in Lua

    def _hosted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function for Lua: it returns a value, or nil, a text and whether the error is counted.

        After any other exception it returns nil and False. Then the script ends, and the exception is raised again in
        the code that ran the script, unless it is ``ScriptEndsError``.
        """

        def call(*values: object) -> Any:
            try:
                return function(*values)
            except ScriptError as error:
                return None, error.text, error.counted
            except ScriptEndsError:
                return None, False
            except BaseException as error:  # noqa: BLE001 - kept, and raised again behind Lua
                self._stopped = error
                return None, False

        return call

    def _poll(self) -> float | bool:
        """Call ``interrupt``; return the milliseconds since the last call, or False if the script must end now."""
        try:
            found = self._interrupt()
        except BaseException as error:  # noqa: BLE001 - kept, and raised again behind Lua
            self._stopped = error
            return False
        if isinstance(found, bytes):
            self._stopped = found
            return False
        return found or 0.0

    def poll(self) -> None:
        """Call ``interrupt`` now, from a Python function that a script calls and that may run for long.

        Raises ScriptEndsError: the script must end.
        """
        if self._poll() is False:
            raise ScriptEndsError

    # Memory

    def _fits(self, size: int) -> bool:
        return not self._most_memory or self._lua.get_memory_used(total=True) + size <= self._most_memory

    def _has_room(self, size: int) -> bool:
        if self._fits(size):
            return True
        self._lua.gccollect()
        return self._fits(size)

    def _make_room(self, size: int) -> bool:
        """Make room between two scripts; return True if ``size`` bytes fit.

        A state of scripts that keeps too much memory is discarded: otherwise each later script would cost a garbage
        collection and be refused. The state of functions is checked after each library.
        """
        if self._fits(size):
            return True
        full = self._collect()
        if self._fits(size):
            return True
        if full and not self._has_functions:
            self._give_up()
        return False

    def expect_room_for(self, reply: bytes) -> None:
        """Raise ScriptError if an encoded reply does not fit into the memory that the script may still take."""
        if self._most_memory:
            size = len(reply)
            if reply[0] != _BULK:
                size += _BYTES_PER_VALUE * reply.count(b"\r\n")
            if not self._has_room(size):
                self.poll()  # the collection took long
                raise ScriptError(NOT_ENOUGH_MEMORY)

    def _expect_room_for_words(self, words: Sequence[bytes]) -> None:
        size = sum(map(len, words))
        # After each script there is room for a few small words.
        if (size > _FEW_BYTES or len(words) > _MOST_WORDS) and not self._make_room(
            size + _BYTES_PER_VALUE * len(words)
        ):
            raise FailedScriptError(NOT_ENOUGH_MEMORY, None, None, counted=False)

    # Running

    def compile(self, code: bytes, name: bytes) -> Any:
        """Compile source code to a Lua function; ``name`` appears in error texts.

        Raises SyntaxError: its argument is Lua's message as bytes.
        """
        if not self._make_room(len(code)):
            raise SyntaxError(_OUT_OF_MEMORY)
        try:
            compiled = self._compile(code, name)
        except self._lua_error as error:
            self._give_up()
            raise SyntaxError(_OUT_OF_MEMORY) from error
        if type(compiled) is tuple:
            raise SyntaxError(compiled[1])
        return compiled

    def run(self, function: Any, resp: int, keys: int, words: Sequence[bytes]) -> bytes:
        """Run a script of EVAL and return its encoded reply.

        Raises FailedScriptError: it ended with an error.

        Args:
            resp: the protocol of the caller.
            keys: how many of the words are KEYS; the others are ARGV.
        """
        if words and (len(words) > 2 or len(words[0]) + len(words[-1]) > _FEW_BYTES):
            self._expect_room_for_words(words)
        try:
            if len(words) <= _MOST_WORDS:
                result = self._run(function, resp, keys, *words)
            else:
                result = self._run_tables(
                    function, resp, self.table(list(words[:keys])), self.table(list(words[keys:]))
                )
        except self._lua_error as error:
            result = self._broken(error)
        if type(result) is bytes and self._stopped is None:
            return result
        return self._ended(result)

    def call(self, function: Any, resp: int, keys: int, words: Sequence[bytes]) -> bytes:
        """Like ``run``, but call a function of a library, with two tables as parameters: the keys and the other words."""
        self._expect_room_for_words(words)
        table = self.table
        try:
            result = self._call(function, resp, table(list(words[:keys])), table(list(words[keys:])))
        except self._lua_error as error:
            result = self._broken(error)
        return self._ended(result)

    def load(self, function: Any) -> None:
        """Run the compiled source of a function library, which registers its functions.

        Raises FailedScriptError: it ended with an error.
        """
        try:
            result = self._load(function)
        except self._lua_error as error:
            result = self._broken(error)
        self._ended(result)

    def _give_up(self) -> None:
        self.exhausted = True
        if self.on_exhausted is not None:
            self.on_exhausted()

    def _broken(self, error: Exception) -> tuple[object, ...]:
        """Return the error for a failure of the interpreter, not of the script."""
        if not isinstance(error, MemoryError):
            self._stopped = error
        return False, NOT_ENOUGH_MEMORY, None, None, None, True

    def _ended(self, result: Any) -> bytes:
        """Return the reply from the driver's result. Raises FailedScriptError: the script failed, or was ended."""
        stopped, self._stopped = self._stopped, None
        if isinstance(stopped, BaseException):
            raise stopped
        if type(result) is tuple and not result[0]:
            _, text, source, line, counted, full = result
            if full:
                self._give_up()
            raise FailedScriptError(stopped or text, source, line, counted=bool(counted))
        if stopped is not None:
            raise FailedScriptError(stopped, None, None, counted=False)
        if type(result) is tuple:
            self._give_up()
            result = result[1]
        reply: bytes = result
        return reply

    @property
    def memory(self) -> int:
        """The bytes that the Lua state uses."""
        return int(self._memory())

    def close(self) -> None:
        """Close the state; it cannot be used afterwards.

        The state holds functions of this object, so without this its memory waits for the garbage collector.
        """
        self.__dict__.clear()

    # math.random

    def seed(self, value: float) -> None:
        """Seed math.random, as math.randomseed does."""
        low = math.trunc(value) & 0xFFFFFFFF if math.isfinite(value) else 0
        self._random = low << 16 | _LOW_SEED

    def _next_random(self) -> float:
        self._random = (self._random * _MULTIPLIER + _INCREMENT) & _MASK_48
        return (self._random >> 17) % _RANGE_31 / _RANGE_31


def _deny(_target: object, name: object, _setting: bool) -> str:
    """The attribute filter of lupa: no attribute of any object may be read or set."""
    raise AttributeError(name)


def _pack_float(value: float | bytes, size: int, little: bool) -> bytes:
    kind = ("<" if little else ">") + ("f" if size == 4 else "d")
    number = float(value)
    try:
        return struct.pack(kind, number)
    except OverflowError:
        return struct.pack(kind, math.copysign(math.inf, number))


def _unpack_float(data: bytes, little: bool) -> float:
    kind = ("<" if little else ">") + ("f" if len(data) == 4 else "d")
    number: float = struct.unpack(kind, data)[0]
    return number
