"""Function libraries: the code of FUNCTION LOAD, compiled.

The keyspace keeps their source code, because it is data: it is saved, loaded and replicated. This module compiles it
on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Final

from ....protocol.errors import ReplyError, shown
from ....storage.keyspace.function_libraries import Libraries, LibraryError, library_head
from .interpreter import FailedScriptError, Interpreter, ScriptError
from .shebang import FLAGS

_CHUNK: Final = b"@user_function"
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


@dataclass(frozen=True, slots=True)
class Function:
    """One function: its name, its Lua function, its description (or None) and its flags."""

    name: bytes
    callback: Any
    description: bytes | None
    flags: frozenset[str]


@dataclass(slots=True)
class Library:
    """A function library: its name, its source and its functions by name."""

    name: bytes
    code: bytes
    functions: dict[bytes, Function] = field(default_factory=dict)


class Functions:
    """The libraries of one server.

    Args:
        sources: the source code, by name.
        new_interpreter: creates the Lua state of functions.
    """

    def __init__(
        self, sources: Libraries, new_interpreter: Callable[[], Interpreter], log: Callable[[str], None]
    ) -> None:
        self.sources = sources
        self.made: Interpreter | None = None
        self._new_interpreter = new_interpreter
        self._log = log
        self._libraries: dict[bytes, Library] = {}
        self._seen = -1 if sources.codes else sources.version  # a file may have been loaded before
        self._loading: Library | None = None
        self.loading_since: int | None = None  # nanoseconds of perf_counter, while the code of a library runs

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter of functions; created on first use."""
        if self.made is None:
            self.made = self._new_interpreter()
        return self.made

    @property
    def libraries(self) -> dict[bytes, Library]:
        """All function libraries by name, compiled."""
        if self._seen != self.sources.version:
            self._follow()
        return self._libraries

    def _follow(self) -> None:
        """Compile the sources that came from a file or a master."""
        version = self.sources.version
        libraries: dict[bytes, Library] = {}
        self.made = None
        for name, code in self.sources.codes.items():
            try:
                libraries[name] = self._compile(code)
            except ReplyError as error:
                self._log(f"Can't use function library {name!r}: {error.text.decode(errors='replace')}")
        # Set these last, so that a failure is retried.
        self._libraries = libraries
        self._seen = version

    def renew(self) -> None:
        """Discard the Lua state; it is rebuilt with all libraries on next use."""
        self.made = None
        self._libraries = {}
        self._seen = -1

    def count(self) -> int:
        """Return the number of functions in all libraries."""
        return sum(len(library.functions) for library in self.libraries.values())

    def find(self, name: bytes) -> Function | None:
        """Return the function of a name in any case of letters, None if there is none.

        Raises ReplyError: there are libraries but no interpreter, so the functions are unknown.
        """
        wanted = name.lower()
        for library in self.libraries.values():
            for known, function in library.functions.items():
                if known.lower() == wanted:
                    return function
        if len(self._libraries) < len(self.sources):
            # The function may be in a library that needs lupa to compile: this raises the error.
            _ = self.interpreter
        return None

    # Changing them

    def compile(self, code: bytes, *, replace: bool = True) -> Library:
        """Compile the source of a function library, which ``add`` may keep.

        Raises ReplyError: it is not a library, its name is taken, or its code fails.
        ``replace``: the name may be that of an existing library.
        """
        if self._seen != self.sources.version:
            self._follow()  # this creates another Lua state, and the library must live in it
        return self._compile(code, replace=replace)

    def _compile(self, code: bytes, *, replace: bool = True) -> Library:
        try:
            name, body = library_head(code)
        except LibraryError as error:
            raise ReplyError(error.args[0]) from error
        if not replace:
            self._check_name(name)
        interpreter = self.interpreter
        try:
            function = interpreter.compile(body, _CHUNK)
        except SyntaxError as error:
            raise ReplyError(b"ERR Error compiling function: %b" % error.args[0]) from error
        self._loading = library = Library(name, code)
        self.loading_since = perf_counter_ns()
        try:
            interpreter.load(function)
        except FailedScriptError as error:
            raise ReplyError(b"ERR Error registering functions: " + error.text) from error
        finally:
            self._loading = self.loading_since = None
        if self.made is not interpreter:
            raise ReplyError(b"ERR Error registering functions: not enough memory")
        if not library.functions:
            raise ReplyError(b"ERR No functions registered")
        return library

    def register(self, name: bytes, callback: Any, description: bytes | None = None, *flags: bytes) -> None:
        """Register a function (redis.register_function) for the library that is being compiled.

        Raises ScriptError: a bad name or flag, or a second function of that name.
        """
        library = self._loading
        if library is None:
            raise ScriptError(b"ERR redis.register_function can only be called on FUNCTION LOAD command")
        if not name or not _LETTERS.issuperset(name):
            raise ScriptError(
                b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one "
                b"character long"
            )
        words = frozenset(flag.decode("latin-1") for flag in flags)
        if not words.issubset(FLAGS):
            raise ScriptError(b"ERR unknown flag given")
        if name in library.functions:
            raise ScriptError(b"ERR Function already exists in the library")
        library.functions[name] = Function(name, callback, description, words)

    def add(self, library: Library, *, replace: bool = False) -> None:
        """Add a compiled library, in place of one with its name.

        Raises:
            ReplyError: another library has a function of the same name; or without ``replace`` the library's name is taken.
        """
        libraries = self.libraries
        if not replace:
            self._check_name(library.name)
        taken = {
            name.lower()
            for other in libraries.values()
            if other.name != library.name
            for name in other.functions
        }
        for name in library.functions:
            if name.lower() in taken:
                raise ReplyError(b"ERR Function %b already exists" % name)
        libraries[library.name] = library
        self.sources.put(library.name, library.code)
        self._seen = self.sources.version

    def _check_name(self, name: bytes) -> None:
        if name in self.libraries:
            raise ReplyError(b"ERR Library '%b' already exists" % shown(name))

    def keep_source(self, code: bytes) -> bytes:
        """Store the source of a library that cannot be compiled here, so that it is saved and propagated; return its name."""
        name, _ = library_head(code)
        self.sources.put(name, code)
        return name

    def remove(self, name: bytes) -> bool:
        """Remove a library; return False if there is none of that name."""
        if self.libraries.pop(name, None) is None and name not in self.sources.codes:
            return False
        self.sources.remove(name)
        self._seen = self.sources.version
        return True

    def clear(self) -> None:
        """Remove all libraries and the Lua state."""
        self.sources.clear()
        self._libraries = {}
        self._seen = self.sources.version
        if self.made is not None:
            self.made.close()
        self.made = None
