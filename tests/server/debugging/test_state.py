"""DEBUG RESET and every piece of state that a server has.

A new attribute that holds state stands in one of the two tables: RESET, which the random test checks, or
KEPT with the reason.
"""

import random
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import redis
from support.streams import server_state as state
from support.wire import commands

import rillet.testing

RESET = """
AclLog: _next entries
ActiveExpiry: _running enabled
AofRewrite: _aof _preparing _wait_minutes consecutive_failures count fork_microseconds forks last_ok last_seconds scheduled writer
Blocking: _deadlines _resumed _tidy_at _timer waiters waiting
Clock: _frozen_at offset
ChunkCache: _again _freed _grown _read_once _ripe _unpacked _unpacked_bytes _young depth
Database: awaited due encodings entries expires frequencies meter scan_order untouched watched
Deadlines: heap when
Delays: _waits
Eviction: _buffers _exceeded_since _pool _turn out_of_memory
Failover: _forced _limits_all _target _timer state
Faults: _due _of_commands active
Functions: _libraries _loading loading_since made
Keyspace: behind by_modification dirty expired expired_fields expired_fields_in_cycle expired_in_cycle expiring
Keyspace: hides_expired hits idempotency_defaults idempotent keeps_idle misses names_last_expired notify_mask
Keyspace: on_flushed on_modified own_expiries ready shows_expired skips_checksums touching usage
Latency: events worst
Libraries: codes
Listeners: shaking_hands
Log: level role
Migrations: _tasks
Pause: _timer holders postponed until writes_only
Persistence: aof delayed_syncs flush_delay loaded_bytes loading loading_started total_bytes
Propagation: _downgraded _exempt _joined _replicas_only active effects replicas sinks understood
PubSub: _matchers channels patterns shard_channels
RdbInfo: aux checked empty expired expires keys skipped version
Recorder: _blocked _running recordings
Replicas: _pending _start connected full_syncs good partial_syncs refused_partial_syncs transfer
Replication: _database backlog id2 link offset second_offset
Scripting: _client _interpreter run
Scripts: _by_body _by_sha _from_eval evicted
Clients: congested dormant monitors over_soft_limit
Cron: paused
Server: busy_error disk_error has_observers interceptor loading
Server: may_refuse needs_all_checks role slow_nanoseconds snapshot_error
Slowlog: _next_id count entries longest of_each total
Snapshots: _installing _last_try _writer _written_to consecutive_failures fork_microseconds forks last_ok last_seconds
Snapshots: saves scheduled
Stats: output_buffer_disconnections query_buffer_disconnections connections_received connections_rejected denied errors evicted_clients evicted_keys
Stats: exceeded_milliseconds total_errors unexpected_errors without_subcommand
TrackingTable: _prefixes _readers broadcasts clients key_bytes own
Turns: waiting
UnsaidLog: _logged
Users: by_name
VirtualTime: skips_alone
Waits: _tidied _waits
"""

KEPT = {
    "fixed when the server is made": """
        ChunkCache: limit round worth_while
        Database: index
        Dispatcher: _in_sentinel _owners _registry listed
        Disk: _real
        CommandEntry: batch_handler feeds_monitor minimum maximum name queued readonly runs_script slowlogged write
        Keyspace: databases
        Log: path quiet
        Listeners: naming
        Server: handles_signals shares_loop loop mode rillet_version run_id sentinel supervisor
        ServerTuning: bit_bytes entry_bytes few_clients slice_commands waits
        Turns: slice
    """,
    "follows from compat-version, which is restored": """
        Dispatcher: _scripts commands containers table
        Blocking: _counts_late
        Propagation: selects_first
    """,
    "counts on, so that nothing has the number of another": """
        Blocking: _order
        Faults: _ids
        Libraries: version
        Functions: _seen
        Propagation: commands
        Recorder: _ids _numbers
        Replication: _counted
        Clients: _last_id
        Snapshots: _count
    """,
    "a time of the server's own clock, or a random word": """
        AofRewrite: _history_at _logged_at _not_before _started
        BackgroundJobs: _looked_at
        VirtualTime: _input _quiet
        Clock: microseconds now
        ChunkCache: _next_round
        Exhaustion: _next_probe _silent_until
        Keyspace: now
        Persistence: last_sync
        Replicas: _crons without_replicas_since
        Replication: _last_cron id
        Cron: _alarm _last_input _pause
        Server: last_save started
        Snapshots: _started
    """,
    "the C library's settings, of the whole process": "Cron: _allocator_tuned",
    "the commands that were sent yet": "Dispatcher: found\nStats: _found",
    "counts the reset itself, and what follows it": """
        CommandEntry: calls failed histogram nanoseconds rejected
        Stats: _past _samples busy_before peak_clients peak_memory peak_memory_time
        Database: accessed
    """,
    "work that goes on: freeing what was dropped, and the flush and the fsync of this turn": """
        BackgroundJobs: _idle_jobs _jobs _timer
        LazyFree: _containers _holders _objects _waiting freed memory pending
        Persistence: _syncing
        Replicas: _asked_for_acks _scheduled
        Replies: _closing _few _is_plain _released _sizes at_once held since unsynced
        Turns: _is_scheduled
    """,
    "of the rewrite or the save that ended; the next one sets it": """
        AofRewrite: _cleaning _installing _rdb
        Snapshots: _changes _target
    """,
    "the random numbers of a fault that is gone": "Faults: _decided",
    "clients that are still to connect": "Listeners: _postponed _waiting arriving",
    "the sockets and files of the server": "Listeners: _accepting _bound _files _place _tcp _tls doors naming unix_place\nFolder: _locks",
    "follows from directives, which are restored": "Server: limits_output parsed_bytes",
    "measured at the last tick of the cron": "ClientEviction: _sizes _total",
    "control connections, and the one that resets": "Clients: controls\nServer: current_client\nStats: _controls",
    "the end of the server": "Ending: _announced _completes _force _save clients until\nServer: exit_status stopping\nSignals: completes ending",
    "the start of the server": "Server: _loaded",
    "a slow script, in the middle of which nothing is reset": "Busy: _doors _guests _run _selector _tasks",
    "the topology, which the cluster sets": "Membership: node",
    "what tests return to": "DataSnapshots: by_name",
}


def listed(text: str) -> set[str]:
    lines = (line.partition(":") for line in text.strip().splitlines())
    return {f"{kind.strip()}.{name}" for kind, _, names in lines for name in names.split()}


KEPT_NAMES = set().union(*map(listed, KEPT.values()))


def on_loop(server: rillet.testing.Server, function: Callable[[], Any]) -> Any:
    """Run a function in the thread of the server."""
    done: Future[Any] = Future()
    server._server.loop.call_soon_threadsafe(lambda: done.set_result(function()))
    return done.result(20)


@pytest.fixture(scope="module")
def servers():
    """Return two servers: one to use and reset, and one that stays new."""
    # A busy machine makes any command slow; and another loop has parts of its own.
    quiet = {"slowlog_log_slower_than": -1, "transport": "tcp"}
    with rillet.testing.Server(**quiet) as used, rillet.testing.Server(**quiet) as new:
        yield used, new


def test_all_state_is_listed_as_reset_or_as_kept(servers):
    found = on_loop(servers[1], lambda: state.names(servers[1]._server))
    reset = listed(RESET)
    assert not reset & KEPT_NAMES
    assert found - reset - KEPT_NAMES == set(), "say in RESET or in KEPT what DEBUG RESET does with these"
    assert (reset | KEPT_NAMES) - found == set(), "there is no such state any more"


def test_new_state_is_noticed(servers):
    server = servers[1]._server
    server.pause.unheard_of = 0
    try:
        assert "Pause.unheard_of" in state.names(server)
    finally:
        del server.pause.unheard_of


# Random commands

LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
COMMANDS = commands("""
    SET a v PX 100000; SET b v; APPEND b w; HSET c f v; HPEXPIRE c 100000 FIELDS 1 f; XADD s * f v
    XGROUP CREATE s g 0 MKSTREAM; XREADGROUP GROUP g Bob STREAMS s >; XADD s IDMP p i * f v; DEL a b c; SCAN 0
    SELECT 3; SWAPDB 0 3; MULTI; EXEC; WATCH a b c; SUBSCRIBE c; SSUBSCRIBE c; MONITOR; BLPOP nothing 0
    XREAD BLOCK 0 STREAMS nothing $; WAIT 1 0; CLIENT TRACKING ON BCAST; CLIENT TRACKING ON; CLIENT REPLY SKIP
    CLIENT NO-EVICT ON; CLIENT NO-TOUCH ON; CLIENT PAUSE 100000 WRITE; CLIENT PAUSE 100000 ALL; CLIENT UNPAUSE
    CLIENT KILL TYPE normal; CONFIG SET maxmemory 100mb; CONFIG SET maxmemory 1
    CONFIG SET maxmemory-policy allkeys-lfu; CONFIG SET maxmemory-policy allkeys-lrm
    CONFIG SET compat-version 7.0; CONFIG SET notify-keyspace-events KEA; CONFIG SET slowlog-log-slower-than 0
    CONFIG SET latency-monitor-threshold 1; CONFIG SET stream-compress-depth 1; CONFIG SET stream-idmp-maxsize 7
    CONFIG SET requirepass secret; CONFIG SET min-replicas-to-write 1; CONFIG SET loglevel debug
    CONFIG SET appendonly yes; CONFIG SET hash-max-listpack-entries 1; ACL SETUSER bob on nopass +@all ~*
    ACL SETUSER default -set "(+get ~x)"; ACL SETUSER default off; AUTH default wrong; FUNCTION LOAD LIBRARY
    FCALL f 0; EVAL "return redis.call('SET', 'a', 1)" 0; SCRIPT LOAD "return 1"; REPLICAOF 127.0.0.1 1
    REPLICAOF NO ONE; PSYNC ? -1; FAILOVER TO 127.0.0.1 1 FORCE TIMEOUT 1000; BGSAVE; SAVE; BGREWRITEAOF
    MIGRATE 127.0.0.1 1 b 0 1000; DEBUG SET-ACTIVE-EXPIRE 0; DEBUG PAUSE-CRON 1
    DEBUG SET-ALLOW-ACCESS-EXPIRED 1; DEBUG AOF-FLUSH-SLEEP 10; DEBUG SLEEP 0.002; DEBUG CLOCK ADVANCE 3600000
    DEBUG CLOCK FREEZE; DEBUG RECORD START; DEBUG CHANGE-REPL-ID; NONSENSE; INFO
""")
# What only a clock, a place or the numbers of a process decide, in INFO.
VOLATILE = (
    "aof_base", "aof_current", "arch", "async", "client_recent", "cmdstat_", "config_file", "connected_time", "dir", "evicted_clients", "expired_time",
    "instantaneous", "latency_percentiles", "lazyfree", "listener", "lru_clock", "lzf", "maxmemory_human", "master_replid", "mem_", "allocator", "tcp_port", "process_id",
    "rdb_last_save_time", "run_id", "server_time", "total_commands", "total_net", "total_reads", "total_writes", "total_connections",
    "uptime", "used_", "rss", "rdb_changes", "peak", "number_of_", "io_threaded", "unexpected", "eventloop",
)  # fmt: skip


def send_some(server: rillet.testing.Server, dice: random.Random) -> None:
    """Send random commands on a few connections, without waiting for replies."""
    connections = [redis.Connection(port=server.port, socket_timeout=5) for _ in range(3)]
    for connection in connections:
        connection.connect()
    for _ in range(dice.randrange(1, 25)):
        connection = dice.choice(connections)
        try:
            connection.send_command(*(word.replace("LIBRARY", LIBRARY) for word in dice.choice(COMMANDS)))
            if dice.random() < 0.5:
                connection.can_read(timeout=0.005)
        except redis.ConnectionError:
            continue
    server._connections = connections  # they stay open


def visible(server: rillet.testing.Server) -> dict[str, object]:
    """Return what a client sees of a server."""
    with server.client(decode_responses=True) as client:
        info = {
            name: value for name, value in client.info("everything").items() if not name.startswith(VOLATILE)
        }
        folder = client.config_get("dir")["dir"]
        return {
            "info": info,
            "config": {
                name: value for name, value in client.config_get("*").items() if name not in {"dir", "port"}
            },
            "users": client.acl_list(),
            "functions": client.function_list(),
            "clients": [(line["name"], line["db"], line["flags"]) for line in client.client_list()],
            "keys": client.dbsize(),
            "slow": client.slowlog_get(),
            "latency": client.latency_latest(),
            "denials": client.acl_log(),
            "digest": client.execute_command("DEBUG", "DIGEST"),
            "channels": [client.pubsub_channels(), client.pubsub_shardchannels(), client.pubsub_numpat()],
            "role": client.role()[:2],
            "files": sorted(path.name for path in Path(folder).iterdir() if path.name != "appendonlydir"),
        }


@pytest.mark.parametrize("seed", range(25))
def test_after_random_commands_and_a_reset_a_server_is_as_a_new_one(servers, seed):
    used, new = servers
    send_some(used, random.Random(seed))
    used.reset()
    new.reset()
    ours = on_loop(used, lambda: state.values(used._server, KEPT_NAMES))
    theirs = on_loop(new, lambda: state.values(new._server, KEPT_NAMES))
    assert {name: value for name, value in ours.items() if theirs.get(name) != value} == {}
    assert set(ours) == set(theirs)
    shown, expected = visible(used), visible(new)
    assert {
        name: value for name, value in shown.pop("info").items() if expected["info"].get(name) != value
    } == {}
    assert shown == {name: value for name, value in expected.items() if name != "info"}
    for connection in used._connections:
        connection.disconnect()
