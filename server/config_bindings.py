"""Apply changed directives to a running server."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..commands.spec.versions import compat_with
from .config.config import DIRECTIVES
from .execution.turns import LONG_COMMAND, NEVER

if TYPE_CHECKING:
    from .server import Server

OF_TLS: Final = (
    "tls-auth-clients", "tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-client-cert-file",
    "tls-client-key-file", "tls-client-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir", "tls-dh-params-file",
    "tls-protocols", "tls-ciphers", "tls-prefer-server-ciphers", "tls-session-caching",
)  # fmt: skip
_NO_MOVE: Final = {
    "port": "Unable to listen on this port. Check server logs.",
    "bind": "Failed to bind to specified addresses.",
    "tls-port": "Unable to update TLS configuration. Check server logs.",
}
# Directives of redis.conf that no code here reads, by reason. tests/server/test_config_bindings.py finds them.
_WITHOUT_EFFECT: Final = {
    "there is no jemalloc and no defragmentation": (
        "activedefrag", "active-defrag-cycle-min", "active-defrag-cycle-max", "active-defrag-ignore-bytes",
        "active-defrag-threshold-lower", "active-defrag-threshold-upper", "active-defrag-max-scan-fields",
        "jemalloc-bg-thread",
    ),
    "tables of keys are Python's, which grow in one step": ("activerehashing",),
    "there are no arrays": ("array-slice-size", "array-sparse-kmax", "array-sparse-kmin"),
    "there is no BACKUP": ("backupdirname", "backup-sealed-ttl"),
    "there are no vector sets": ("vset-force-single-threaded-execution",),
    "hashes have no templates": (
        "hash-max-template-entries", "hash-min-template-entries", "hash-rdb-load-max-template-entries",
        "hash-rdb-load-min-template-entries", "hash-rdb-load-template-disassembly-threshold",
    ),
    "memory is not measured by key": ("key-memory-histograms",),
    "a key that expired is always deleted where it is found": ("lazyexpire-nested-arbitrary-keys",),
    "commands are parsed as they come": ("lookahead", "prefetch-batch-max-size"),
    "rillet check-aof --fix repairs an append-only file with a corrupt end": ("aof-load-corrupt-tail-max-size",),
    "the search for expired keys has a fixed budget of time": ("active-expire-effort", "dynamic-hz"),
    "the lines at the start are always the same": ("always-show-logo",),
    "the process leaves this to the system (taskset, choom, cgroups)": (
        "server-cpulist", "bio-cpulist", "aof-rewrite-cpulist", "bgsave-cpulist", "oom-score-adj", "oom-score-adj-values",
        "disable-thp", "ignore-warnings", "set-proc-title", "proc-title-template", "socket-mark-id",
    ),
    "there is no cluster bus": (
        "cluster-allow-replica-migration", "cluster-announce-tls-port", "cluster-config-file",
        "cluster-link-sendbuf-limit", "cluster-migration-barrier", "cluster-node-timeout", "cluster-port",
        "cluster-replica-no-failover", "cluster-replica-validity-factor", "cluster-bus-port-protected-mode",
        "cluster-compatibility-sample-ratio", "cluster-slot-stats-enabled",
        "cluster-slot-migration-handoff-max-lag-bytes", "cluster-slot-migration-max-archived-tasks",
        "cluster-slot-migration-sync-buffer-drain-timeout", "cluster-ping-interval", "cluster-announce-human-nodename",
    ),
    "a crash leaves what Python writes": (
        "crash-log-enabled", "crash-memcheck-enabled", "use-exit-on-panic", "watchdog-period",
    ),
    "Lua has what the chosen version of Redis gives it": ("lua-enable-deprecated-api",),
    "a full sync and the stream of commands share one connection": ("repl-rdb-channel",),
    "the log hides nothing more": ("hide-user-data-from-log",),
    "one thread runs all commands": ("io-threads", "io-threads-do-reads"),
    "loading gives way to clients by itself": ("loading-process-events-interval-bytes",),
    "large values are always freed in the background": ("replica-lazy-flush",),
    "lists are not compressed": ("list-compress-depth",),
    "text is compared byte by byte": ("locale-collate",),
    "the event loop accepts all clients that wait": (
        "max-new-connections-per-cycle", "max-new-tls-connections-per-cycle",
    ),
    "such errors are logged": ("propagation-error-behavior", "replica-ignore-disk-write-errors"),
    "no file of a full sync stays behind": ("rdb-del-sync-files",),
    "a replica does not read the stream while it loads": ("replica-full-sync-buffer-limit",),
    "the log goes to logfile or to standard output": ("syslog-enabled", "syslog-ident", "syslog-facility"),
    "OpenSSL's own values hold": ("tls-session-cache-size", "tls-session-cache-timeout"),
}  # fmt: skip
WITHOUT_EFFECT: Final = {name: why for why, names in _WITHOUT_EFFECT.items() for name in names}


def bind(server: Server) -> None:
    """Apply the directives that the server keeps in another form, and apply them again after each CONFIG SET."""
    bindings = _Bindings(server)
    config = server.config
    for name in ("slowlog-log-slower-than", "latency-monitor-threshold"):
        config.on_change(name, bindings.update_thresholds)
    config.on_change("notify-keyspace-events", bindings.update_notifications)
    config.on_change("compat-version", bindings.update_compat)
    for name in ("stream-idmp-duration", "stream-idmp-maxsize"):
        config.on_change(name, bindings.update_idempotency)
    config.on_change("lua-memory-limit", bindings.renew_scripting)
    for name in vars(server.keyspace.limits):
        config.on_change(name.replace("_", "-"), bindings.update_limits)
    config.on_change("stream-compress-depth", bindings.update_compress_depth)
    for name in ("maxmemory", "maxmemory-policy", "maxmemory-clients", "lfu-log-factor", "lfu-decay-time"):
        config.on_change(name, server.eviction.update)
    config.on_change("maxmemory", server.eviction.warn)
    for name in ("maxmemory", "maxmemory-clients"):
        config.on_change(name, server.client_eviction.enforce_limit)
    config.on_change("tracking-table-max-keys", server.tracking.shrink)
    config.on_change("client-output-buffer-limit", server.update_checks)
    for name in ("client-query-buffer-limit", "proto-max-bulk-len"):
        config.on_change(name, bindings.update_parsers)
    config.on_change("requirepass", bindings.update_password)
    for name in OF_TLS:
        config.on_change(name, server.listeners.update_tls)
    config.on_change("appendonly", bindings.switch_aof)
    config.on_change("loglevel", bindings.update_loglevel)
    config.on_change("dir", bindings.change_directory)
    for name, refusal in _NO_MOVE.items():
        config.on_change(name, partial(server.listeners.move, refusal))
    for name in ("key-memory-histograms", "cluster-slot-stats-enabled"):
        config.on_change(name, bindings.refuse_to_track_memory)
    for name in WITHOUT_EFFECT:
        config.on_change(name, partial(warn_without_effect, server, name))
    bindings.update_thresholds()
    bindings.update_notifications()
    bindings.update_idempotency()
    bindings.update_compress_depth()
    bindings.update_limits()
    server.eviction.update()


def warn_without_effect(server: Server, *names: str) -> None:
    """Log a warning for each directive that has no effect in Rillet and differs from its default."""
    for name in names:
        directive = DIRECTIVES[name.encode()]
        if getattr(server.config, directive.attribute) != server.config.default_of(directive):
            server.log.warning(f"Warning: {name} has no effect in Rillet: {WITHOUT_EFFECT[name]}.")


class _Bindings:
    """One method for each kind of change; a method raises ValueError to refuse the new value."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.config = server.config

    def update_thresholds(self) -> None:
        slowlog, latency = self.config.slowlog_log_slower_than, self.config.latency_monitor_threshold
        self.server.slow_nanoseconds = min(
            LONG_COMMAND, slowlog * 1000 if slowlog >= 0 else NEVER, latency * 1_000_000 if latency else NEVER
        )

    def renew_scripting(self) -> None:
        if self.server.scripting_if_used is not None:
            self.server.scripting_if_used.renew()

    def update_notifications(self) -> None:
        self.server.keyspace.notify_mask = self.config.notify_mask

    def update_compat(self) -> None:
        server = self.server
        server.compat = compat_with(self.config.compat_version)
        server.keyspace.names_last_expired = server.compat.names_last_expired
        server.propagation.selects_first = server.compat.selects_before_multi
        server.dispatcher.use_version(server.compat)
        if server.scripting_if_used is not None:
            server.scripting_if_used.renew()  # Lua offers the functions of that version

    def update_idempotency(self) -> None:
        self.server.keyspace.set_idempotency_defaults(
            self.config.stream_idmp_duration, self.config.stream_idmp_maxsize
        )

    def update_compress_depth(self) -> None:
        self.server.keyspace.set_compress_depth(self.config.stream_compress_depth)

    def update_password(self) -> None:
        self.server.users.set_password(self.config.requirepass)

    def update_limits(self) -> None:
        for name in vars(self.server.keyspace.limits):
            setattr(self.server.keyspace.limits, name, getattr(self.config, name))

    def update_parsers(self) -> None:
        for client in [*self.server.clients.values(), *self.server.clients.controls]:
            client.update_parser()

    def update_loglevel(self) -> None:
        self.server.log.level = self.config.loglevel

    def change_directory(self) -> None:
        if not Path(self.config.dir).is_dir():
            raise ValueError("No such file or directory")
        self.server.log.path = self.config.in_dir(self.config.logfile)

    def refuse_to_track_memory(self) -> None:
        of_slots = self.config.cluster_slot_stats_enabled.split() if self.config.version >= (8, 10) else []
        if self.config.key_memory_histograms or {"yes", "mem"}.intersection(of_slots):
            raise ValueError("memory tracking cannot be enabled at runtime")

    def switch_aof(self) -> None:
        persistence = self.server.persistence
        if self.config.appendonly and persistence.aof is None and not persistence.switch_on():
            raise ValueError("Unable to turn on AOF. Check server logs.")
        if not self.config.appendonly and persistence.aof is not None:
            persistence.switch_off()
