"""INFO: one function per section; each yields its fields in Redis' order."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from ...commands.runtime.client import Client, watched_key_changed
from ...commands.spec.command import handles
from ...protocol import replies
from ...storage import system
from ...storage.keyspace.field_expiry import expiring_hashes
from ..server import Server
from . import specs
from .keysizes import MOST_KEYS, key_sizes
from .used_memory import (
    SERVER_BYTES,
    aof_buffer_bytes,
    client_bytes,
    dataset_bytes,
    human_bytes,
    not_counted_bytes,
    overhead_bytes,
    resident_bytes,
)

# The title of a section, and the function that yields its fields.
Section: TypeAlias = tuple[str, Callable[[Server], Iterator[tuple[str, object]]]]

_ACTIVE_MS: Final = 500  # a client counts as active until this long after its last input

# Characters that would end a field name or start a comment; a script may use them in the codes of its errors.
_UNSAFE: Final = bytes.maketrans(b"#:", b"__")


def _server(server: Server) -> Iterator[tuple[str, object]]:
    uptime = (server.clock.now - server.started) // 1000
    config = server.config
    yield "redis_version", server.version
    yield "redis_git_sha1", "00000000"
    yield "redis_git_dirty", 0
    yield "redis_build_id", "0"
    yield "redis_mode", server.mode
    yield "os", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "arch_bits", 64
    yield "monotonic_clock", "POSIX clock_gettime"
    yield "multiplexing_api", type(server.loop).__module__.split(".", 1)[0]
    yield "atomicvar_api", "none"
    yield "gcc_version", "0.0.0"
    yield "process_id", os.getpid()
    yield "process_supervised", server.supervisor
    yield "run_id", server.run_id
    yield "tcp_port", config.port
    yield "server_time_usec", int(server.clock.unix_seconds() * 1_000_000)
    yield "uptime_in_seconds", uptime
    yield "uptime_in_days", uptime // 86400
    yield "hz", config.hz
    yield "configured_hz", config.hz
    yield "lru_clock", (server.clock.now // 1000) & 0xFFFFFF
    yield "executable", sys.argv[0]
    yield "config_file", config.config_file or ""
    yield "io_threads_active", 0
    binds = "".join(f"bind={host}," for host in config.bind)
    listeners = [
        f"name=tcp,{binds}port={config.port}" if config.port else "",
        f"name=unix,bind={config.unixsocket}" if config.unixsocket else "",
        f"name=tls,{binds}port={config.tls_port}" if config.tls_port else "",
    ]
    for number, listener in enumerate(filter(None, listeners)):
        yield f"listener{number}", listener
    if server.ending.is_put_off:
        yield "shutdown_in_milliseconds", max(server.ending.until - server.clock.now, 0)
    yield "rillet_version", server.rillet_version


def _clients(server: Server) -> Iterator[tuple[str, object]]:
    clients = server.clients.values()
    # After a change of a watched key, the client no longer counts: its EXEC must fail.
    watching = [client for client in clients if client.watched and not watched_key_changed(client)]
    yield "connected_clients", sum(not client.is_replica for client in clients)
    yield "cluster_connections", 0
    yield "maxclients", server.config.maxclients
    yield "client_recent_max_input_buffer", 0
    yield "client_recent_max_output_buffer", 0
    link = server.replication.link
    held = link is not None and link.is_held  # the master counts as a client, too
    waits = len(server.blocking.waiters) + len(server.pause.postponed) + len(server.ending.clients)
    yield "blocked_clients", waits + held
    yield "tracking_clients", sum(client.tracking is not None for client in clients)
    yield "pubsub_clients", sum(client.is_subscriber for client in clients)
    yield "watching_clients", len(watching)
    yield "clients_in_timeout_table", server.blocking.with_deadline()
    now = server.clock.now
    yield (
        "active_clients",
        sum(bool(client.reads) and now - client.last_interaction < _ACTIVE_MS for client in clients),
    )
    yield (
        "total_watched_keys",
        len({(each.database.index, each.key) for client in watching for each in client.watched}),
    )
    yield "total_blocking_keys", server.blocking.keys()
    yield "total_blocking_keys_on_nokey", server.blocking.keys_on_missing()


def _memory(server: Server) -> Iterator[tuple[str, object]]:
    data, overhead, resident = dataset_bytes(server), overhead_bytes(server), resident_bytes()
    used = overhead + data
    peak = server.stats.note_memory(used, server.clock.now // 1000)
    limit, total = server.config.maxmemory, system.HERE.memory()
    yield "used_memory", used
    yield "used_memory_human", human_bytes(used)
    yield "used_memory_rss", resident
    yield "used_memory_rss_human", human_bytes(resident)
    yield "used_memory_peak", peak
    yield "used_memory_peak_human", human_bytes(peak)
    yield "used_memory_peak_time", server.stats.peak_memory_time
    yield "used_memory_peak_perc", f"{used * 100 / max(peak, 1):.2f}%"
    yield "used_memory_overhead", overhead
    yield "used_memory_startup", SERVER_BYTES
    yield "used_memory_dataset", data
    yield "used_memory_dataset_perc", f"{data * 100 / max(used - SERVER_BYTES, 1):.2f}%"
    yield "allocator_allocated", used
    yield "allocator_active", used
    yield "allocator_resident", resident
    yield "allocator_muzzy", 0
    yield "total_system_memory", total
    yield "total_system_memory_human", human_bytes(total)
    yield from _scripting_memory(server)
    yield "maxmemory", limit
    yield "maxmemory_human", human_bytes(limit)
    yield "maxmemory_policy", server.config.maxmemory_policy
    # All allocated memory is in use; resident memory beyond it is overhead of the process.
    yield "allocator_frag_ratio", "1.00"
    yield "allocator_frag_bytes", 0
    yield "allocator_rss_ratio", f"{resident / max(used, 1):.2f}"
    yield "allocator_rss_bytes", resident - used
    yield "rss_overhead_ratio", "1.00"
    yield "rss_overhead_bytes", 0
    yield "mem_fragmentation_ratio", f"{resident / max(used, 1):.2f}"
    yield "mem_fragmentation_bytes", resident - used
    yield "mem_not_counted_for_evict", not_counted_bytes(server) + server.keyspace.lazyfree.memory
    yield "mem_replication_backlog", len(server.replication.backlog or b"")
    yield "mem_total_replication_buffers", 0
    yield "mem_replica_full_sync_buffer", 0
    yield "mem_clients_slaves", client_bytes(server, replicas=True)
    normal = client_bytes(server, replicas=False)
    yield "mem_clients_normal", normal
    yield "mem_clients_normal_shared", 0
    yield "mem_clients_normal_unshared", normal
    yield "mem_cluster_slot_migration_output_buffer", 0
    yield "mem_cluster_slot_migration_input_buffer", 0
    yield "mem_cluster_slot_migration_input_buffer_peak", 0
    yield "mem_cluster_links", 0
    yield "mem_aof_buffer", aof_buffer_bytes(server)
    yield "mem_allocator", f"python-{platform.python_version()}"
    yield "mem_overhead_db_hashtable_rehashing", 0
    yield "active_defrag_running", 0
    yield "lazyfree_pending_objects", server.keyspace.lazyfree.pending
    yield "lazyfreed_objects", server.keyspace.lazyfree.freed


def _scripting_memory(server: Server) -> Iterator[tuple[str, object]]:
    scripting = server.scripting
    functions = scripting.functions
    evaluating, calling = scripting.memory()
    scripts, libraries = scripting.scripts.size, sum(map(len, functions.sources.codes.values()))
    yield "used_memory_lua", evaluating
    yield "used_memory_vm_eval", evaluating
    yield "used_memory_lua_human", human_bytes(evaluating)
    yield "used_memory_scripts_eval", scripts
    yield "number_of_cached_scripts", len(scripting.scripts)
    yield "number_of_functions", functions.count()
    yield "number_of_libraries", len(functions.libraries)
    yield "used_memory_vm_functions", calling
    yield "used_memory_vm_total", evaluating + calling
    yield "used_memory_vm_total_human", human_bytes(evaluating + calling)
    yield "used_memory_functions", libraries
    yield "used_memory_hash_templates", 0
    yield "used_memory_scripts", scripts + libraries
    yield "used_memory_scripts_human", human_bytes(scripts + libraries)


def _persistence(server: Server) -> Iterator[tuple[str, object]]:
    snapshots = server.snapshots
    persistence = server.persistence
    aof, rewrite = persistence.aof, persistence.rewrite
    yield "loading", int(server.loading)
    yield "async_loading", 0
    yield "current_cow_peak", 0
    yield "current_cow_size", 0
    yield "current_cow_size_age", 0
    yield "current_fork_perc", f"{rewrite.percent or snapshots.percent:.2f}"
    yield "current_save_keys_processed", 0
    is_saving = snapshots.in_progress or rewrite.in_progress
    yield "current_save_keys_total", sum(map(len, server.keyspace.databases)) if is_saving else 0
    yield "rdb_changes_since_last_save", server.keyspace.dirty
    yield "rdb_bgsave_in_progress", int(snapshots.in_progress)
    yield "rdb_last_save_time", server.last_save
    yield "rdb_last_bgsave_status", "ok" if snapshots.last_ok else "err"
    yield "rdb_last_bgsave_time_sec", snapshots.last_seconds
    yield "rdb_current_bgsave_time_sec", snapshots.current_seconds
    yield "rdb_saves", snapshots.saves
    yield "rdb_saves_consecutive_failures", snapshots.consecutive_failures
    yield "rdb_last_cow_size", 0
    yield "rdb_last_load_keys_expired", snapshots.info.expired
    yield "rdb_last_load_keys_loaded", snapshots.info.keys
    yield "aof_enabled", int(aof is not None)
    yield "aof_rewrite_in_progress", int(rewrite.in_progress)
    yield "aof_rewrite_scheduled", int(rewrite.scheduled)
    yield "aof_last_rewrite_time_sec", rewrite.last_seconds
    yield "aof_current_rewrite_time_sec", rewrite.current_seconds
    yield "aof_last_bgrewrite_status", "ok" if rewrite.last_ok else "err"
    yield "aof_rewrites", rewrite.count
    yield "aof_rewrites_consecutive_failures", rewrite.consecutive_failures
    yield "aof_last_write_status", "ok" if server.disk_error is None else "err"
    yield "aof_last_cow_size", 0
    yield "backup_in_progress", 0
    yield "module_fork_in_progress", 0
    yield "module_fork_last_cow_size", 0
    if aof is not None:
        yield "aof_current_size", aof.size
        yield "aof_base_size", aof.base_size
        yield "aof_pending_rewrite", 0
        yield "aof_buffer_length", aof.unwritten
        yield "aof_pending_bio_fsync", int(persistence.is_syncing)
        yield "aof_delayed_fsync", persistence.delayed_syncs
    if server.loading:
        total, loaded = persistence.total_bytes, persistence.loaded_bytes
        yield "loading_start_time", persistence.loading_started // 1000
        yield "loading_total_bytes", total
        yield "loading_rdb_used_mem", 0
        yield "loading_loaded_bytes", loaded
        yield "loading_loaded_perc", f"{loaded * 100 / max(total, 1):.2f}"
        elapsed = (server.clock.tick() - persistence.loading_started) / 1000
        yield "loading_eta_seconds", int(elapsed * (total - loaded) / max(loaded, 1))


def _threads(server: Server) -> Iterator[tuple[str, object]]:
    clients, stats = len(server.clients), server.stats
    yield "io_thread_0", f"clients={clients},reads={stats.reads_processed},writes={stats.writes_processed}"


def _stats(server: Server) -> Iterator[tuple[str, object]]:
    stats, keyspace = server.stats, server.keyspace
    operations, net_in, net_out = stats.per_second()
    yield "total_connections_received", stats.connections_received
    yield "total_commands_processed", stats.commands_processed
    yield "instantaneous_ops_per_sec", operations
    yield "total_net_input_bytes", stats.net_input
    yield "total_net_output_bytes", stats.net_output
    yield "total_net_repl_input_bytes", 0
    yield "total_net_repl_output_bytes", 0
    yield "instantaneous_input_kbps", f"{net_in / 1024:.2f}"
    yield "instantaneous_output_kbps", f"{net_out / 1024:.2f}"
    yield "instantaneous_input_repl_kbps", "0.00"
    yield "instantaneous_output_repl_kbps", "0.00"
    yield "rejected_connections", stats.connections_rejected
    replicas = server.replication.replicas
    yield "sync_full", replicas.full_syncs
    yield "sync_partial_ok", replicas.partial_syncs
    yield "sync_partial_err", replicas.refused_partial_syncs
    yield "expired_subkeys", keyspace.expired_fields
    yield "expired_subkeys_active", keyspace.expired_fields_in_cycle
    yield "expired_keys", keyspace.expired
    yield "expired_keys_active", keyspace.expired_in_cycle
    yield "expired_stale_perc", "0.00"
    yield "expired_time_cap_reached_count", 0
    yield "expire_cycle_cpu_milliseconds", 0
    yield "evicted_keys", stats.evicted_keys
    yield "evicted_clients", stats.evicted_clients
    yield "evicted_scripts", server.scripting.scripts.evicted
    exceeded, current = server.eviction.exceeded_milliseconds()
    yield "total_eviction_exceeded_time", exceeded
    yield "current_eviction_exceeded_time", current
    yield "keyspace_hits", keyspace.hits
    yield "keyspace_misses", keyspace.misses
    yield "pubsub_channels", len(server.pubsub.channels)
    yield "pubsub_patterns", len(server.pubsub.patterns)
    yield "pubsubshard_channels", len(server.pubsub.shard_channels)
    yield (
        "latest_fork_usec",
        server.snapshots.fork_microseconds or server.persistence.rewrite.fork_microseconds,
    )
    yield "total_forks", server.persistence.rewrite.forks + server.snapshots.forks
    yield "migrate_cached_sockets", 0
    yield "slave_expires_tracked_keys", len(server.keyspace.own_expiries or ())
    yield "active_defrag_hits", 0
    yield "active_defrag_misses", 0
    yield "active_defrag_key_hits", 0
    yield "active_defrag_key_misses", 0
    yield "total_active_defrag_time", 0
    yield "current_active_defrag_time", 0
    yield "tracking_total_keys", server.tracking.total_keys
    yield "tracking_total_items", server.tracking.total_items
    yield "tracking_total_prefixes", server.tracking.total_prefixes
    yield "unexpected_error_replies", stats.unexpected_errors
    yield "total_error_replies", stats.total_errors
    yield "dump_payload_sanitizations", 0
    yield "total_reads_processed", stats.reads_processed
    yield "total_writes_processed", stats.writes_processed
    yield "io_threaded_reads_processed", 0
    yield "io_threaded_writes_processed", 0
    yield "io_threaded_total_prefetch_batches", 0
    yield "io_threaded_total_prefetch_entries", 0
    yield "client_query_buffer_limit_disconnections", stats.query_buffer_disconnections
    yield "client_output_buffer_limit_disconnections", stats.output_buffer_disconnections
    yield "reply_buffer_shrinks", 0
    yield "reply_buffer_expands", 0
    yield from _event_loop(server)
    slow = server.slowlog
    yield "slowlog_commands_count", slow.count
    yield "slowlog_commands_time_ms_max", f"{slow.longest / 1000:.2f}"
    yield "slowlog_commands_time_ms_sum", f"{slow.total / 1000:.2f}"
    yield "hash_templates", 0
    yield "hash_template_keys", 0
    yield "acl_access_denied_auth", stats.denied[b"auth"]
    yield "acl_access_denied_cmd", stats.denied[b"command"]
    yield "acl_access_denied_key", stats.denied[b"key"]
    yield "acl_access_denied_channel", stats.denied[b"channel"]
    yield "acl_access_denied_tls_cert", 0


def _event_loop(server: Server) -> Iterator[tuple[str, object]]:
    """Yield the work of the event loop. A cycle is a read of client input; other cycles cannot be observed."""
    stats = server.stats
    cycles, commands = stats.reads_processed, stats.commands_processed
    per_second = stats.reads_per_second()
    in_commands = sum(entry.nanoseconds for _, entry in server.dispatcher.used()) // 1000
    busy = max(int((time.thread_time() - stats.busy_before) * 1_000_000), in_commands)
    yield "eventloop_cycles", cycles
    yield "eventloop_duration_sum", busy
    yield "eventloop_duration_cmd_sum", in_commands
    yield "instantaneous_eventloop_cycles_per_sec", per_second
    yield "instantaneous_eventloop_duration_usec", busy // max(cycles, 1)
    yield "eventloop_cycles_with_clients_processing", cycles
    yield "total_client_processing_events", cycles
    yield "avg_pipeline_length_sum", commands
    yield "avg_pipeline_length_cnt", cycles
    yield "avg_pipeline_length", f"{commands / max(cycles, 1):.2f}"


def _replication(server: Server) -> Iterator[tuple[str, object]]:
    replication = server.replication
    replication.count_commands()
    replicas, backlog, config = replication.replicas, replication.backlog, server.config
    yield "role", server.role
    if replication.link is not None:
        yield from _link(server)
    yield "connected_slaves", len(replicas.connected)
    if config.min_replicas_to_write and config.min_replicas_max_lag:
        yield "min_slaves_good_slaves", replicas.good
    for number, replica in enumerate(replicas.connected.values()):
        state = replica.state
        lag = replicas.lag(replica) if state == "online" else 0
        place = f"ip={replica.address.decode('latin-1')},port={replica.port},state={state}"
        figures = f"offset={max(replica.acknowledged, 0)},lag={lag}"
        thread = ",io-thread=0" * server.compat.knows("8.10")
        yield f"slave{number}", f"{place},{figures}{thread}"
    if replicas.connected and server.propagation.needs_downgrade(server.compat.number):
        yield "repl_stream_version", ".".join(map(str, server.propagation.understood))
    yield "master_failover_state", replication.failover.state
    yield "master_replid", replication.id
    yield "master_replid2", replication.id2
    yield "master_repl_offset", replication.offset
    yield "second_repl_offset", replication.second_offset
    yield "repl_backlog_active", int(backlog is not None)
    yield "repl_backlog_size", config.repl_backlog_size
    yield "repl_backlog_first_byte_offset", 0 if backlog is None else backlog.first_promised
    yield "repl_backlog_histlen", 0 if backlog is None else len(backlog)


def _link(server: Server) -> Iterator[tuple[str, object]]:
    link = server.replication.link
    assert link is not None
    now, config, offset = server.loop.time(), server.config, server.replication.offset
    connected = link.state == "connected"
    yield "master_host", link.host
    yield "master_port", link.port
    yield "master_link_status", "up" if connected else "down"
    yield "master_last_io_seconds_ago", int(now - link.last_io) if connected else -1
    yield "master_sync_in_progress", int(link.state == "sync")
    yield "slave_read_repl_offset", link.read_offset
    yield "slave_repl_offset", offset
    receiver = link.receiver
    if link.state == "sync" and receiver is not None:
        known = max(receiver.total, 0)
        yield "master_sync_total_bytes", known
        yield "master_sync_read_bytes", receiver.received
        yield "master_sync_left_bytes", known - receiver.received
        yield "master_sync_perc", f"{receiver.received * 100 / known if known else 0:.2f}"
        yield "master_sync_last_io_seconds_ago", int(now - link.last_io)
    yield "replica_full_sync_buffer_size", 0
    yield "replica_full_sync_buffer_peak", 0
    yield "master_current_sync_attempts", link.attempts
    yield "master_total_sync_attempts", link.attempts_in_all
    since = -1 if link.changed_at is None else int(now - link.changed_at)
    yield f"master_link_{'up' if connected else 'down'}_since_seconds", since
    if connected:
        yield "master_client_io_thread", 0
    yield "total_disconnect_time_sec", int(link.seconds_down)
    yield "slave_priority", config.replica_priority
    yield "slave_read_only", int(config.replica_read_only)
    yield "replica_announced", int(config.replica_announced)


def _cpu(_server: Server) -> Iterator[tuple[str, object]]:
    times = os.times()
    yield "used_cpu_sys", f"{times.system:.6f}"
    yield "used_cpu_user", f"{times.user:.6f}"
    yield "used_cpu_sys_children", f"{times.children_system:.6f}"
    yield "used_cpu_user_children", f"{times.children_user:.6f}"
    own = system.HERE.thread_times()  # commands run in the main thread
    if own is not None:
        yield "used_cpu_sys_main_thread", f"{own[0]:.6f}"
        yield "used_cpu_user_main_thread", f"{own[1]:.6f}"


def _commandstats(server: Server) -> Iterator[tuple[str, object]]:
    slowlog = server.slowlog
    for name, entry in server.dispatcher.used():
        if entry.calls or entry.rejected or entry.failed:
            microseconds = entry.nanoseconds // 1000
            each = entry.nanoseconds / 1000 / max(entry.calls, 1)
            figures = f"calls={entry.calls},usec={microseconds},usec_per_call={each:.2f}"
            figures += f",rejected_calls={entry.rejected},failed_calls={entry.failed}"
            slow = slowlog.of_each.get(name)
            if slow is not None and server.compat.knows("8.10"):
                count, total, longest = slow
                figures += f",slowlog_count={count}"
                figures += f",slowlog_time_ms_sum={total / 1000:.2f},slowlog_time_ms_max={longest / 1000:.2f}"
            yield f"cmdstat_{name}", figures
    for name, count in server.stats.without_subcommand.items():
        if name not in server.dispatcher.found:
            figures = "calls=0,usec=0,usec_per_call=0.00"
            yield f"cmdstat_{name}", f"{figures},rejected_calls={count},failed_calls=0"


def _errorstats(server: Server) -> Iterator[tuple[str, object]]:
    for code, count in sorted(server.stats.errors.items()):
        name = code.translate(_UNSAFE).decode("utf-8", "surrogateescape")
        yield f"errorstat_{name}", f"count={count}"


def _latencystats(server: Server) -> Iterator[tuple[str, object]]:
    config = server.config
    for name, entry in server.dispatcher.used():
        if entry.calls and config.latency_tracking:
            wanted = config.latency_tracking_info_percentiles
            figures = ",".join(f"p{each:g}={entry.percentile(each):.3f}" for each in wanted)
            yield f"latency_percentiles_usec_{name}", figures


def _cluster(server: Server) -> Iterator[tuple[str, object]]:
    yield "cluster_enabled", int(server.config.cluster_enabled)


def _keyspace(server: Server) -> Iterator[tuple[str, object]]:
    for db in server.keyspace.databases:
        if db.entries:
            left = [when - server.keyspace.now for when in db.expires.values()]
            average = max(sum(left) // len(left), 0) if left else 0
            figures = f"keys={len(db.entries)},expires={len(left)},avg_ttl={average}"
            if server.compat.knows("7.4"):
                figures += f",subexpiry={expiring_hashes(db)}"
            yield f"db{db.index}", figures


SECTIONS: Final[dict[str, Section]] = {
    "server": ("Server", _server),
    "clients": ("Clients", _clients),
    "memory": ("Memory", _memory),
    "persistence": ("Persistence", _persistence),
    "threads": ("Threads", _threads),
    "stats": ("Stats", _stats),
    "replication": ("Replication", _replication),
    "cpu": ("CPU", _cpu),
    "modules": ("Modules", lambda _server: iter(())),
    "commandstats": ("Commandstats", _commandstats),
    "errorstats": ("Errorstats", _errorstats),
    "latencystats": ("Latencystats", _latencystats),
    "cluster": ("Cluster", _cluster),
    "keyspace": ("Keyspace", _keyspace),
    "keysizes": ("Keysizes", key_sizes),
}
# Sections and fields that older versions lack.
_SINCE: Final = {
    **dict.fromkeys(("threads", "keysizes"), "8.0"),
    **dict.fromkeys(
        (
            "listener0", "listener1", "listener2", "pubsub_clients", "watching_clients", "total_watched_keys",
            "total_blocking_keys", "total_blocking_keys_on_nokey", "evicted_scripts",
            "client_query_buffer_limit_disconnections", "client_output_buffer_limit_disconnections", "eventloop_cycles",
            "eventloop_duration_sum", "eventloop_duration_cmd_sum", "instantaneous_eventloop_cycles_per_sec",
            "instantaneous_eventloop_duration_usec", "acl_access_denied_auth", "acl_access_denied_cmd",
            "acl_access_denied_key", "acl_access_denied_channel",
        ),
        "7.2",
    ),
    **dict.fromkeys(("expired_subkeys", "mem_overhead_db_hashtable_rehashing", "allocator_muzzy"), "7.4"),
    **dict.fromkeys(
        (
            "used_memory_peak_time", "mem_replica_full_sync_buffer", "io_threaded_total_prefetch_batches",
            "io_threaded_total_prefetch_entries",
        ),
        "8.0",
    ),
    **dict.fromkeys(
        (
            "mem_cluster_slot_migration_output_buffer", "mem_cluster_slot_migration_input_buffer",
            "mem_cluster_slot_migration_input_buffer_peak", "rdb_saves_consecutive_failures", "expired_subkeys_active",
            "expired_keys_active", "acl_access_denied_tls_cert",
        ),
        "8.6",
    ),
    **dict.fromkeys(
        (
            "active_clients", "used_memory_hash_templates", "mem_clients_normal_shared", "mem_clients_normal_unshared",
            "backup_in_progress", "eventloop_cycles_with_clients_processing", "total_client_processing_events",
            "avg_pipeline_length_sum", "avg_pipeline_length_cnt", "avg_pipeline_length", "slowlog_commands_count",
            "slowlog_commands_time_ms_max", "slowlog_commands_time_ms_sum", "hash_templates", "hash_template_keys",
            "replica_full_sync_buffer_size", "replica_full_sync_buffer_peak", "master_current_sync_attempts",
            "master_total_sync_attempts", "master_link_up_since_seconds", "master_client_io_thread",
            "total_disconnect_time_sec",
        ),
        "8.10",
    ),
}  # fmt: skip
_ONLY_WITH_ALL: Final = {"commandstats", "latencystats"}


def _wanted(names: list[str], sections: Mapping[str, Section]) -> list[str]:
    chosen: set[str] = set()
    for name in names or ["default"]:
        if name in {"all", "everything"}:
            chosen.update(sections)
        elif name == "default":
            chosen.update(section for section in sections if section not in _ONLY_WITH_ALL)
        else:
            chosen.add(name)
    return [section for section in sections if section in chosen]


def info_text(server: Server, names: list[str], sections: Mapping[str, Section] = SECTIONS) -> bytes:
    """Return the text of INFO sections; names are in lower case, among them ``default``, ``all`` and ``everything``.

    Unknown names add nothing.
    """
    newer = {name for name, since in _SINCE.items() if not server.compat.knows(since)}
    if "keysizes" not in names and sum(len(db.entries) for db in server.keyspace.databases) > MOST_KEYS:
        newer.add("keysizes")
    blocks = []
    for section in _wanted(names, sections):
        if section in newer:
            continue
        title, fields = sections[section]
        lines = [f"{name}:{value}\r\n" for name, value in fields(server) if name not in newer]
        blocks.append(f"# {title}\r\n" + "".join(lines))
    return "\r\n".join(blocks).encode("utf-8", "surrogateescape")


@handles(specs.INFO)
def info(client: Client, args: list[bytes]) -> bytes:
    """Reply with INFO sections as text: ``# Title``, lines ``name:value``, an empty line between sections."""
    names = [word.lower().decode("latin-1") for word in args[1:]]
    return replies.verbatim(info_text(client.server, names), client.resp)
