"""Run the scripts and functions of one server: make their Lua states, call Lua, interrupt slow scripts, count failures."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import ReplyError
from ....protocol.key_slots import key_slot
from ...runtime.client import Client
from .conversions import format_number_7_0, number_of_errors, write_double
from .flag_checks import check_flags, check_link
from .interpreter import Dialect, FailedScriptError, Interpreter
from .libraries import Function, Functions
from .redis_call import call
from .redis_functions import redis_constants, redis_functions
from .script_cache import Script, Scripts
from .script_kill import STOPPED
from .script_run import ANY_SLOT, Run, ScriptClient
from .shebang import ALLOW_CROSS_SLOT, ALLOW_OOM, NO_WRITES

if TYPE_CHECKING:
    from ...runtime.context import Server

_TOO_SLOW_TO_LOAD: Final = b"ERR FUNCTION LOAD timeout"
_SERVING_NANOSECONDS: Final = 1_000_000  # serving other clients takes longer than an interrupt
_LOADING_NANOSECONDS: Final = 500_000_000
_MINUS: Final = ord("-")


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
                redis_constants(self.server.compat),
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
            redis_constants(self.server.compat),
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
            signs_zeros=not compat.shortest_doubles,
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
            keys: how many words after the third are keys.
            read_only: the name of the command ends in _RO.
        """
        if script.flags is None:
            if self.server.needs_all_checks:
                check_link(client, frozenset())
        else:
            check_flags(client, script.flags, read_only=read_only)
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
        check_flags(client, function.flags, read_only=read_only)
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

        As in Redis, each error that a command returned counts once; all errors that the script created count as one.
        """
        own = run.own_errors
        for _ in range(number_of_errors(reply) - own + bool(own)):
            self.server.calls.note_failure()

    def _count_own_error(self, text: bytes) -> None:
        """Count an error in a reply that the script created itself, or made from a command's error."""
        assert self.run is not None
        self.server.stats.count_error(text)
        self.run.own_errors += 1

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

    # The functions of scripts

    def _api(self) -> dict[bytes, Callable[..., Any]]:
        return {b"call": self._redis_call} | redis_functions(self.server, lambda: self.run)

    def _redis_call(self, *words: object) -> Any:
        run = self.run
        assert run is not None
        interpreter = self.functions.made if run.is_function else self._interpreter
        assert interpreter is not None
        return call(run, interpreter, words)

    def _resp(self) -> int:
        return self.run.client.resp if self.run is not None else 2
