"""CONTRIBUTING's "Where is …?": each answer names files, and these files define the thing in question."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from rillet.commands.spec.command import REGISTRY, handler_for
from rillet.commands.spec.versions import NEWEST, compat_with
from rillet.server.families import load_all

ROOT = Path(__file__).parents[1]
QUOTED = re.compile(r"`([^`]+)`")

# By question: where each thing is, as `file: name, name`. A name in capitals is a command, whose handler is there; one
# with a version is the handler of that version. Others are attributes that the file defines itself, `Class.method` too.
_HOLDS = """
arity, flags, grammar of XCLAIM
    commands/streams/specs.py: record of XCLAIM
XCLAIM and its options (LASTID)
    commands/streams/xclaim.py: XCLAIM, _parse_options; commands/streams/group_propagation.py: propagate_claims
where XAUTOCLAIM drops deleted entries
    storage/groups/claiming.py: claim; commands/streams/xautoclaim.py: XAUTOCLAIM
the delivery of new entries; the history of a consumer
    commands/streams/xreadgroup.py: XREADGROUP, _deliver; storage/groups/history.py: read_again
the words of stream commands: IDs, intervals, a group and its errors
    storage/streams/ids.py: parse, parse_interval; commands/streams/lookup.py: find_group, no_such_group
sizes of chunks and of removals in steps
    storage/streams/stream.py: Stream; commands/streams/deferral.py: MANY
XNACK
    commands/streams/xack.py: XACK, XNACK
XDEL, XINFO …
    commands/streams/xdel.py: XDEL; commands/streams/xinfo.py: XINFO|STREAM, XINFO|GROUPS
XTRIM
    commands/streams/xtrim.py: XTRIM; commands/streams/trim_options.py: TrimOptions; storage/streams/trimming.py: trim;
    storage/groups/references.py: trim_acked
lag of a group
    commands/streams/xinfo.py: lag_of; storage/groups/lag.py: lag
the PEL: an entry's owner and time, the order of idle times, the entries that XPENDING shows
    storage/groups/pending.py: Pending, IdleOrder, Pel.find_idle
what 7.0 did
    commands/streams/v7_0.py: XREADGROUP 7.0; commands/lists/v7_0.py: of_one_key; commands/spec/versions.py: Compat
PSYNC: whether a replica gets the missing part of the stream or a snapshot
    server/replication/replicas.py: Replicas.synchronize; server/replication/commands/handlers.py: PSYNC
version and checksum of a payload of DUMP or FUNCTION DUMP
    storage/rdb/payloads.py: dump_value, restore_libraries
redis.call and redis.pcall
    commands/scripting/lua/redis_call.py: call; commands/scripting/lua/sandbox.lua
what old replicas are sent
    commands/runtime/downgrades.py: needs_downgrade, where_known;
    commands/streams/trim_options.py: TrimOptions.downgraded, downgraded_deletion
COMMAND
    server/admin/command.py: COMMAND, COMMAND|DOCS
MULTI
    commands/transactions/handlers.py: MULTI, EXEC; server/execution/dispatcher.py: Dispatcher._queue
how a command is run, counted, propagated
    server/execution/call.py: Calls.call, Calls.finish, Calls.propagate; server/execution/fast_path.py: run_one
whether a client runs, waits or closes
    commands/runtime/state.py: State; commands/runtime/client.py: Client.update_state, Client.wait, Client.end_wait
the NOAUTH check, the order of checks, the refusals LOADING, MASTERDOWN and BUSY
    server/execution/checks.py: NOAUTH, check
who is refused at once (`maxclients`, protected mode), the limit of unsent output (`client-output-buffer-limit`)
    server/net/connection.py: Connection.connection_made, Connection.check_output_limit
the limit of unread input (`client-query-buffer-limit`)
    protocol/requests.py: RequestParser._query_limit; server/net/connection.py: Connection._receive_carefully;
    server/execution/dispatcher.py: Dispatcher._queue
the memory of a value, MEMORY USAGE
    storage/keyspace/memory.py: memory_of_key; storage/groups/stream_value.py: memory
when group mode acknowledges
    pipeline/group/stream_reader.py: GroupStreamReader._next_once; pipeline/group/acknowledger.py: Acknowledger
which texts are numbers
    commands/runtime/arguments.py: parse_integer
SDOWN and ODOWN
    server/sentinel/watch.py: Watch._judge; server/sentinel/monitor.py: Monitor.note_down
what CLIENT REPLY OFF and SKIP suppress
    server/execution/dispatcher.py: Dispatcher._mind_reply_mode; server/net/connection.py: Connection.answer;
    server/net/held_replies.py
which waits a change of the clock ends (`clock.advance`, DEBUG CLOCK)
    server/debugging/virtual_time.py: VirtualTime.moved; server/execution/blocking.py: Blocking.time_moved
the ID of XADD: `*`, `ms-*`, "equal or smaller"
    commands/streams/xadd.py: XADD, _given_id
when the seen-time and the active-time of a consumer change
    commands/streams/xreadgroup.py: XREADGROUP; storage/groups/claiming.py: claim;
    storage/groups/consumer.py: Consumer.see, Consumer.receive
who wakes a blocked reader, even when its group or key is deleted
    server/execution/blocking.py: Blocking; commands/streams/xreadgroup.py: XREADGROUP
what a read-only console sends
    console/read_only.py: refuse_writes; console/prompt.py: Rule.changes
which commands are slow (SLOWLOG, LATENCY)
    server/execution/call.py: Calls._note_slow; server/admin/slowlog.py: Slowlog
the end of idle clients (`timeout`)
    server/net/clients.py: Clients.close_idle
the last snapshot of SHUTDOWN and SIGTERM
    server/persistence/rdb.py: Snapshots.save_at_end; server/shutdown.py: Ending
begin and end of a load: when keys expire again
    server/persistence/aof.py: Persistence.begin_loading, Persistence.end_loading
a directive of redis.conf
    server/config/config.py: DIRECTIVES
an option of the Spark formats
    pipeline/redis/options.py: option; pipeline/source/entry_batches.py: ColumnOptions;
    pipeline/ledger/format.py: FollowingOptions
which reply through a proxy belongs to which request
    testing/proxying/link.py: Link; testing/proxying/session.py: Session; protocol/framing.py: Framer
what Windows has otherwise
    storage/system.py: Posix, Windows, HERE
the rules of ACL SETUSER, and which commands they allow
    commands/runtime/users.py: Selector, User.apply, User.check; commands/runtime/denials.py: refusal
AUTH, HELLO, RESET
    commands/connection/session.py: AUTH, HELLO, RESET
a line of CLIENT LIST
    commands/runtime/client_line.py: client_line
a keyspace notification
    commands/pubsub/registry.py: PubSub.publish_event; storage/keyspace/notifications.py;
    server/config/events.py: mask_of
calls and microseconds of a command (INFO commandstats)
    server/execution/command_entry.py: CommandEntry.count; server/execution/stats.py: Stats
`daemonize`, `supervised`
    server/supervisor.py: Launch, supervisor_of
the errors of files that cannot be loaded
    storage/loading.py: AofError, RdbError
how the pipeline detects lost entries
    pipeline/source/loss_detection.py: reconcile; pipeline/source/losses.py: DataLossError
a value that does not fit its column (`parseMode`)
    pipeline/source/entry_batches.py: ColumnOptions, MalformedEntryError; pipeline/source/casts.py;
    pipeline/source/time_casts.py
which commands a fault hits, and what it does
    server/debugging/fault.py: Fault.takes; server/debugging/fault_set.py: FaultSet; server/debugging/faults.py: Faults;
    testing/faults.py: HasFaults
what a simulation disturbs: late messages, lost replies, crashes
    testing/simulating/simulation.py: Simulation._set_latency, Simulation.begin_loss;
    testing/simulating/run.py: Plan; testing/simulating/simulated_loop.py: SimulatedLoop;
    testing/simulating/decorator.py: simulation; testing/simulating/shrinking.py: smallest
a promise of `rillet audit`, and its verdict: kept, broken, not tried
    testing/auditing/running.py; testing/auditing/catalogue.py: PROMISES;
    testing/auditing/bench.py: Bench.send, Bench.until; testing/auditing/analysis.py: Analysis.find_work
redis-py without a socket (`transport="memory"`)
    testing/memory_transport.py: Channel; testing/memory_transport_in_loop.py: End;
    testing/clients_across_resets.py: KeptClient
what the console reads of a server
    console/connection.py: Link; console/poller.py: Poller; console/page_details.py: StreamSubject
the thresholds of the console: poison, dead consumers, colours of idle times
    console/style/__init__.py: POISON_DELIVERIES; console/page_details.py: DEAD_MS; console/render.py: HEAT_MS
SCRIPT KILL, BUSY, a slow script
    commands/scripting/lua/script_kill.py: kill_script, BUSY_SCRIPT; server/net/busy_script.py
when group mode claims entries of other consumers
    pipeline/group/next_batch.py: Gatherer._claim; pipeline/group/repeated_batch.py: divide
the words of the sink's XADD: trim, IDMP, ID
    pipeline/sink/xadd_encoding.py: RowEncoder; pipeline/sink/xadd_sending.py: check, check_wait;
    pipeline/sink/spark_writers.py: BatchWriter, StreamWriter
the memory limit of scripts (`lua-memory-limit`)
    commands/scripting/lua/interpreter.py: Interpreter._give_up
where `rename-command` applies
    server/execution/dispatcher.py: Dispatcher.own_name
how to add a stream command
    docs/adding-a-command.md
how to add a data type
    docs/adding-a-data-type.md; storage/value_types.py: ValueType, TYPES
"""
HOLDS = {
    question: " ".join(answer.split()).split("; ")
    for question, answer in re.findall(r"^(\S.*)\n((?:    .*\n)+)", _HOLDS, re.MULTILINE)
}


def rows() -> dict[str, str]:
    """The table of CONTRIBUTING: answers by question."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("## Where is …?\n")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")]
    return dict(cells[2:])


def definitions(path: Path) -> set[str]:
    """The names that a file defines at its top, and `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def module_of(path: str) -> str:
    return "rillet." + path.removesuffix(".py").replace("/", ".")


def is_there(path: str, name: str) -> bool:
    """Whether a file holds what it is said to hold."""
    if name.startswith("record of "):
        command = name.removeprefix("record of ")
        return getattr(import_module(module_of(path)), command) is REGISTRY[command.lower()]
    if re.fullmatch(r"X?[A-Z]+(\|[A-Z]+)?( \d\.\d)?", name) and name not in definitions(ROOT / path):
        command, _, version = name.lower().partition(" ")
        handler = handler_for(REGISTRY[command], compat_with(version or NEWEST).knows)
        return handler.__module__ == module_of(path)
    return name in definitions(ROOT / path)


def test_every_question_is_answered_and_every_answer_proven():
    assert rows().keys() == HOLDS.keys()


@pytest.mark.parametrize("question", HOLDS)
def test_an_answer_names_the_files_and_what_is_asked_for_is_in_them(question):
    load_all()
    answer = QUOTED.findall(rows()[question])
    for line in HOLDS[question]:
        path, _, names = line.partition(": ")
        assert path in answer
        assert (ROOT / path).is_file()
        for name in names.split(", ") if names else ():
            assert is_there(path, name), (path, name)


def test_every_command_of_streams_is_in_the_file_that_its_name_says():
    load_all()
    streams = [each for each in REGISTRY.values() if each.room == REGISTRY["xadd"].room and each.is_served]
    places = {
        each.name: handler_for(each, compat_with(NEWEST).knows).__module__.rpartition(".")[2]
        for each in streams
    }
    elsewhere = {name: place for name, place in places.items() if place != name.partition("|")[0]}
    assert elsewhere == {
        "xackdel": "xdel", "xcfgset": "idempotency", "xdelex": "xdel", "xidmprecord": "idempotency", "xlen": "xrange",
        "xnack": "xack", "xrevrange": "xrange",
    }  # fmt: skip
    for name, place in elsewhere.items():
        assert name.upper() in rows()["XDEL, XINFO …"] or place == "xack"
