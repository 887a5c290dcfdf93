"""Run scripts and functions of one server: check their flags, call Lua, interrupt slow ones; the table ``redis`` of scripts."""

from __future__ import annotations

import hashlib
import math
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import NOT_AN_INTEGER, ReplyError
from ....protocol.key_slots import key_slot
from ...runtime.arguments import parse_integer
from ...spec.command import REGISTRY
from .conversions import format_number_7_0, number_of_errors, write_double
from .interpreter import Dialect, FailedScriptError, Interpreter, ScriptError
from .libraries import Functions
from .redis_call import call, words_of
from .script_cache import Scripts
from .script_kill import STOPPED
from .script_run import ANY_SLOT, Run, ScriptClient
from .shebang import ALLOW_CROSS_SLOT, ALLOW_OOM, ALLOW_STALE, NO_CLUSTER, NO_WRITES

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.client import Client
    from ...runtime.context import Server
    from ...spec.command import Command
    from .libraries import Function
    from .script_cache import Script

_TOO_SLOW_TO_LOAD: Final = b"ERR FUNCTION LOAD timeout"
_SERVING_NANOSECONDS: Final = 1_000_000  # serving other clients takes longer than an interrupt
_LOADING_NANOSECONDS: Final = 500_000_000
_WRITES_ON_REPLICA: Final = b"READONLY You can not run script with write flag on readonly replica."
_WRITES_READ_ONLY: Final = b"ERR Can not execute a script with write flag using *_ro command."
_MASTERDOWN: Final = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
_NO_CLUSTER: Final = b"ERR Can not run script on cluster, 'no-cluster' flag is set."
_NOREPLICAS: Final = b"NOREPLICAS Not enough good replicas to write."
_LOG_LEVELS: Final = ("debug", "verbose", "notice", "warning")
_MINUS: Final = ord("-")


_ALL: Final = 3
_TO_AOF: Final = 1
_TO_REPLICAS: Final = 2


class Scripting:
    """The scripts and functions of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.run: Run | None = None  # the running script, None if there is none
        # Called about every millisecond while a script runs longer than busy-reply-threshold; serves other clients.
        self.on_slow: Callable[[Run], None] | None = None
        self.scripts = Scripts()
        self.functions = Functions(
            server.keyspace.libraries, self._new_function_interpreter, server.log.warning
        )
        self._interpreter: Interpreter | None = None
        self._client: ScriptClient | None = None

    # Interpreters, created on first use

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter of scripts; created on first use."""
        if self._interpreter is None:
            functions = self._api()
            functions[b"replicate_commands"] = lambda *_: True
            self._interpreter = Interpreter(
                functions,
                self._constants(),
                self._interrupt,
                self._resp,
                own_error=self._count_own_error,
                most_memory=self.server.config.lua_memory_limit,
                dialect=self._dialect(),
            )
            self._interpreter.on_exhausted = self._drop_exhausted
        return self._interpreter

    def _new_function_interpreter(self) -> Interpreter:
        interpreter = Interpreter(
            self._api(),
            self._constants(),
            self._interrupt,
            self._resp,
            own_error=self._count_own_error,
            register=self.functions.register,
            most_memory=self.server.config.lua_memory_limit,
            dialect=self._dialect(),
        )
        interpreter.on_exhausted = self._drop_exhausted
        return interpreter

    def _dialect(self) -> Dialect:
        compat = self.server.compat
        return Dialect(
            write_double=write_double if compat.shortest_doubles else format_number_7_0,
            has_os=compat.knows("7.2"),
            has_array_mt=compat.knows("8.4"),
        )

    def memory(self) -> tuple[int, int]:
        """Return the bytes of the Lua state of scripts, and of that of functions."""
        functions = self.functions.made
        return (
            self._interpreter.memory if self._interpreter is not None else 0,
            functions.memory if functions is not None else 0,
        )

    def flush_scripts(self) -> None:
        """Forget the scripts and their Lua state: SCRIPT FLUSH."""
        self.scripts.clear()
        if self._interpreter is not None:
            self._interpreter.close()
        self._interpreter = None

    def reset(self) -> None:
        """Forget all scripts and functions, and both Lua states."""
        self.flush_scripts()
        self.functions.clear()
        self.scripts = Scripts()
        self._client = None

    def renew(self) -> None:
        """Recreate both Lua states after lua-memory-limit has changed; scripts and libraries are recompiled."""
        self._renew_interpreter()
        self.functions.renew()

    def _renew_interpreter(self) -> None:
        self._interpreter = None
        self.scripts.forget_compiled()

    def _drop_exhausted(self) -> None:
        if self._interpreter is not None and self._interpreter.exhausted:
            self.server.log.warning(
                "The Lua state of scripts is made again: what it held exceeded its memory."
            )
            self._renew_interpreter()
        made = self.functions.made
        if made is not None and made.exhausted:
            self.server.log.warning(
                "The Lua state of functions is made again: what it held exceeded its memory."
            )
            self.functions.renew()

    # Running

    def run_script(
        self, client: Client, script: Script, args: list[bytes], keys: int, *, read_only: bool
    ) -> bytes:
        """Run a script of EVAL for a client; return its encoded reply.

        Raises ReplyError: a check refuses the script, or it ended with an error.

        Args:
            client: the caller.
            args: the words of the command.
            keys: how many words after the third are keys.
            read_only: the name of the command ends in _RO.
        """
        if script.flags is None:
            if self.server.needs_all_checks:
                self._check_link(client, frozenset())
        else:
            self._check_flags(client, script.flags, read_only=read_only)
            read_only = read_only or NO_WRITES in script.flags
        interpreter = self._interpreter or self.interpreter
        function = script.function
        if function is None:
            function = self.scripts.compile_again(script, interpreter)
        return self._within(
            client,
            script.sha,
            args,
            interpreter.run,
            function,
            keys,
            is_function=False,
            read_only=read_only,
            flags=script.flags,
        )

    def call_function(
        self, client: Client, function: Function, args: list[bytes], keys: int, *, read_only: bool
    ) -> bytes:
        """Call a function for a client; arguments, result and errors are those of ``run_script``."""
        self._check_flags(client, function.flags, read_only=read_only)
        return self._within(
            client,
            function.name,
            args,
            self.functions.interpreter.call,
            function.callback,
            keys,
            is_function=True,
            read_only=read_only or NO_WRITES in function.flags,
            flags=function.flags,
        )

    def _within(
        self,
        client: Client,
        name: bytes,
        args: list[bytes],
        work: Callable[[Any, int, int, list[bytes]], bytes],
        function: Any,
        keys: int,
        *,
        is_function: bool,
        read_only: bool,
        flags: frozenset[str] | None,
    ) -> bytes:
        assistant = self._client
        if assistant is None:
            assistant = self._client = ScriptClient(self.server)
        assistant.stand_in_for(client)
        if not client.in_exec:
            self.server.keyspace.now = self.server.clock.begin_unit()
        self.run = run = Run(
            self.server, client, assistant, name, args, is_function, read_only, perf_counter_ns()
        )
        if flags:
            run.allow_oom = ALLOW_OOM in flags
        if self.server.config.cluster_enabled and flags is not None and ALLOW_CROSS_SLOT not in flags:
            assistant.slot = key_slot(args[3]) if keys else ANY_SLOT
        try:
            reply = work(function, client.resp, keys, args[3:])
        except FailedScriptError as error:
            text = error.reply(name)
            if error.counted:
                self.server.calls.note_failure()
                return ReplyError(text).encoded
            raise ReplyError(text) from error
        else:
            if reply[0] == _MINUS or b"\r\n-" in reply:
                self._note_failures(reply, run)
            return reply
        finally:
            self.run = None
            if run.end_with is STOPPED:
                # Do not propagate a unit that was cut off.
                self.server.propagation.forget()
            if run.noted_slow:
                milliseconds = (perf_counter_ns() - run.started) // 1_000_000
                self.server.log.notice(f"Slow script is over after {milliseconds} milliseconds")

    def _note_failures(self, reply: bytes, run: Run) -> None:
        """Count how often a script failed by the errors in its reply.

        As in Redis, it failed once for each error of its commands in the reply, and once for all errors of its own.
        """
        own = run.own_errors
        for _ in range(number_of_errors(reply) - own + bool(own)):
            self.server.calls.note_failure()

    def _count_own_error(self, text: bytes) -> None:
        """Count an error in a reply that the script created itself, or made from a command's error."""
        assert self.run is not None
        self.server.stats.count_error(text)
        self.run.own_errors += 1

    def _check_link(self, client: Client, flags: frozenset[str]) -> None:
        if self.server.replication.is_stale and not client.trusted and ALLOW_STALE not in flags:
            raise ReplyError(_MASTERDOWN)

    def _check_flags(self, client: Client, flags: frozenset[str], *, read_only: bool) -> None:
        """Check the flags of a script against the state of the server."""
        server = self.server
        if server.config.cluster_enabled and NO_CLUSTER in flags:
            raise ReplyError(_NO_CLUSTER)
        self._check_link(client, flags)
        if NO_WRITES in flags:
            return
        if not client.trusted:
            if server.replication.is_readonly:
                raise ReplyError(_WRITES_ON_REPLICA)
            refusal = server.snapshot_error or server.disk_error
            if refusal is not None:
                raise ReplyError(refusal)
        if read_only:
            raise ReplyError(_WRITES_READ_ONLY)
        if server.replication.lacks_replicas and not client.trusted:
            raise ReplyError(_NOREPLICAS)

    # Interrupts while a script runs

    def _interrupt(self) -> bytes | float | None:
        run = self.run
        now = perf_counter_ns()
        if run is None:
            began = self.functions.loading_since
            return _TOO_SLOW_TO_LOAD if began is not None and now - began > _LOADING_NANOSECONDS else None
        threshold = self.server.config.busy_reply_threshold
        looked = run.looked or run.started
        if (
            threshold > 0
            and self.on_slow is not None
            and now - run.started >= threshold * 1_000_000
            and now - run.served >= _SERVING_NANOSECONDS
        ):
            if not run.noted_slow:
                run.noted_slow = True
                self.server.log.warning(
                    f"Slow script detected: still in execution after {(now - run.started) // 1_000_000} "
                    "milliseconds. You can try killing the script using the SCRIPT KILL command. "
                    f"Script name is: {run.name.decode(errors='backslashreplace')}."
                )
            self.on_slow(run)
            run.looked = run.served = perf_counter_ns()
        else:
            run.looked = now
        return run.end_with or (now - looked) / 1_000_000

    # The table ``redis`` of scripts

    def _constants(self) -> dict[bytes, object]:
        release = self.server.compat.release
        major, minor, patch = (int(part) for part in release.split("."))
        return {
            b"LOG_DEBUG": 0,
            b"LOG_VERBOSE": 1,
            b"LOG_NOTICE": 2,
            b"LOG_WARNING": 3,
            b"REPL_NONE": 0,
            b"REPL_AOF": _TO_AOF,
            b"REPL_SLAVE": _TO_REPLICAS,
            b"REPL_REPLICA": _TO_REPLICAS,
            b"REPL_ALL": _ALL,
            b"REDIS_VERSION": release.encode(),
            b"REDIS_VERSION_NUM": major << 16 | minor << 8 | patch,
        }

    def _api(self) -> dict[bytes, Callable[..., Any]]:
        return {
            b"call": self._redis_call,
            b"sha1hex": _sha1hex,
            b"log": self._redis_log,
            b"setresp": self._redis_setresp,
            b"set_repl": self._redis_set_repl,
            b"acl_check_cmd": self._redis_acl_check,
        }

    def _redis_call(self, *words: object) -> Any:
        run = self.run
        assert run is not None
        interpreter = self.functions.made if run.is_function else self._interpreter
        assert interpreter is not None
        return call(run, interpreter, words)

    def _redis_log(self, level: float, text: bytes) -> None:
        if not -1 < level < len(_LOG_LEVELS):  # C truncates a fraction
            kind = b"log" if self.server.compat.knows("7.2") else b"debug"
            raise ScriptError(b"ERR Invalid %b level." % kind)
        write = getattr(self.server.log, _LOG_LEVELS[int(level)])
        write(text.decode(errors="backslashreplace"))

    def _resp(self) -> int:
        return self.run.client.resp if self.run is not None else 2

    def _redis_setresp(self, *values: object) -> None:
        if len(values) != 1:
            raise ScriptError(b"ERR redis.setresp() requires one argument.")
        if values[0] not in {2, 3, b"2", b"3"}:
            raise ScriptError(b"ERR RESP version must be 2 or 3.")
        assert self.run is not None
        self.run.client.resp = int(values[0])

    def _redis_set_repl(self, *values: object) -> None:
        if len(values) != 1:
            raise ScriptError(b"ERR redis.set_repl() requires two arguments.")
        flags = values[0] if isinstance(values[0], (int, float)) else 0
        if not math.isfinite(flags) or int(flags) & ~_ALL:
            raise ScriptError(
                b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."
            )
        assert self.run is not None
        self.run.propagates_to = bool(int(flags) & _TO_AOF), bool(int(flags) & _TO_REPLICAS)

    def _redis_acl_check(self, *values: object) -> bool:
        argv = words_of(values, self.server.compat)
        command = self._command_to_check(argv)
        user = self.run.client.user if self.run is not None else self.server.users.default
        return user.check(command, argv) is None

    def _command_to_check(self, argv: list[bytes]) -> Command:
        checks_arity = self.server.compat.knows("8.4")
        try:
            entry = self.server.dispatcher.find(argv)
        except ReplyError as error:
            if b"wrong number" not in error.text:
                raise ScriptError(b"ERR Invalid command passed to redis.acl_check_cmd()") from error
            if not checks_arity:
                return REGISTRY[argv[0].lower().decode("latin-1")]  # a container without a subcommand
        else:
            if not checks_arity or entry.minimum <= len(argv) <= entry.maximum:
                return entry.command
        raise ScriptError(b"ERR Wrong number of args for redis.acl_check_cmd()")


def key_count(args: list[bytes], not_a_number: bytes = NOT_AN_INTEGER) -> int:
    """Return the number of keys, the third word of EVAL and its variants.

    Raises:
        ReplyError: it is no number (then with the text ``not_a_number``), negative, or greater than the number of words.
    """
    word = args[2]
    if word == b"0":
        return 0
    try:
        count = parse_integer(word)
    except ReplyError as error:
        raise ReplyError(not_a_number) from error
    if count > len(args) - 3:
        raise ReplyError(b"ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise ReplyError(b"ERR Number of keys can't be negative")
    return count


def _sha1hex(*values: object) -> bytes:
    if len(values) != 1:
        raise ScriptError(b"ERR wrong number of arguments")
    value = values[0]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = b"%.14g" % value  # as Lua writes a number
    text = value if isinstance(value, bytes) else b""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
