"""The scripts of EVAL and SCRIPT LOAD, by their SHA1."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ....protocol.errors import ReplyError
from .interpreter import Interpreter
from .shebang import read_script_shebang

MOST_FROM_EVAL: Final = 500
_CHUNK: Final = b"@user_script"


@dataclass(slots=True)
class Script:
    """One cached script: its source and, once it has run, its compiled function."""

    sha: bytes  # SHA1 of the source, in hex
    body: bytes
    function: Any  # the compiled function, None if its Lua state was discarded
    flags: frozenset[str] | None  # the flags of its first line, None without such a line
    from_eval: bool  # only EVAL sent it, so it may be forgotten


class Scripts:
    """The cache of scripts. Of the scripts that only EVAL sent it keeps the 500 used most recently."""

    def __init__(self) -> None:
        self._by_sha: dict[bytes, Script] = {}
        self._by_body: dict[bytes, Script] = {}
        self._from_eval: OrderedDict[bytes, Script] = OrderedDict()
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_sha)

    def __iter__(self) -> Iterator[Script]:
        return iter(self._by_sha.values())

    @property
    def size(self) -> int:
        """Bytes of the sources of all cached scripts."""
        return sum(map(len, self._by_body))

    def find(self, sha: bytes) -> Script | None:
        """Return the script with a SHA1, whose letters may be upper case; None if there is none."""
        script = self._by_sha.get(sha) or self._by_sha.get(sha.lower())
        if script is not None and script.from_eval:
            self._from_eval.move_to_end(script.sha)
        return script

    def of_body(self, body: bytes) -> Script | None:
        """Return the script with this source; None if it is not in the cache."""
        script = self._by_body.get(body)
        if script is not None and script.from_eval:
            self._from_eval.move_to_end(script.sha)
        return script

    def add(self, body: bytes, interpreter: Interpreter, *, from_eval: bool) -> Script:
        """Return a script from the cache; compile and add it if it is not there.

        Raises ReplyError: it does not compile.
        ``from_eval``: whether EVAL sent it, so that it may be dropped later. A script of SCRIPT LOAD stays.
        """
        script = self._by_body.get(body)
        if script is not None:
            if not from_eval and script.from_eval:
                script.from_eval = False
                del self._from_eval[script.sha]
            return script
        flags, code = read_script_shebang(body)
        try:
            function = interpreter.compile(code, _CHUNK)
        except SyntaxError as error:
            raise ReplyError(b"ERR Error compiling script (new function): %b" % error.args[0]) from error
        sha = hashlib.sha1(body, usedforsecurity=False).hexdigest().encode()
        script = Script(sha, body, function, flags, from_eval)
        self._by_sha[sha] = self._by_body[body] = script
        if from_eval:
            while len(self._from_eval) >= MOST_FROM_EVAL:
                _, oldest = self._from_eval.popitem(last=False)
                del self._by_sha[oldest.sha], self._by_body[oldest.body]
                self.evicted += 1
            self._from_eval[sha] = script
        return script

    def forget_compiled(self) -> None:
        """Drop the compiled functions and keep the sources, because the Lua state of the functions is discarded."""
        for script in self._by_sha.values():
            script.function = None

    @staticmethod
    def compile_again(script: Script, interpreter: Interpreter) -> Any:
        """Compile a script whose Lua state was discarded; return the function. Raises ReplyError: too little memory."""
        _, code = read_script_shebang(script.body)
        try:
            script.function = interpreter.compile(code, _CHUNK)
        except SyntaxError as error:
            raise ReplyError(b"ERR Error compiling script (new function): %b" % error.args[0]) from error
        return script.function

    def clear(self) -> None:
        """Forget all scripts: SCRIPT FLUSH."""
        self._by_sha.clear()
        self._by_body.clear()
        self._from_eval.clear()
