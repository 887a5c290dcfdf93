"""A Lua state without a server: its redis.call echoes, fails, or asks for the end of the script."""

import pytest

from rillet.commands.scripting.lua.interpreter import FailedScriptError, Interpreter, ScriptError


class Host:
    def __init__(self, **keywords):
        self.end_with = None
        self.lua = Interpreter(
            {b"call": self.call, b"log": lambda *_: None, b"boom": self.boom},
            {b"LOG_DEBUG": 0}, lambda: self.end_with, lambda: 2, **keywords,
        )  # fmt: skip

    def call(self, *words):
        if words[:1] == (b"end",):
            self.end_with = b"ERR ended"
        elif not words or words[0] == b"fail":
            raise ScriptError(b"ERR failed", counted=True)
        return words[0]

    def boom(self, *_):
        raise RuntimeError("secret")

    def run(self, code, *words, keys=0):
        try:
            return self.lua.run(self.lua.compile(code.encode(), b"@user_script"), 2, keys, list(words))
        finally:
            self.end_with = None


def failure_of(host, code):
    with pytest.raises(FailedScriptError) as caught:
        host.run(code)
    return caught.value


def error_of(host, code):
    return failure_of(host, code).text
