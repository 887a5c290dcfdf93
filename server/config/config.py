"""The configuration: one dataclass for flags, redis.conf and CONFIG."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ...commands.spec.versions import NEWEST, VERSIONS
from ...protocol.errors import ReplyError, shown
from ...protocol.globs import is_glob, matcher
from . import kinds
from .directive import Directive, Setting, numbers, setting, table
from .directive import directive as _directive
from .directive import fixed as _fixed
from .events import Events, mask_of
from .kinds import INT_MAX, LONG_MAX, UINT_MAX, ULONG_MAX, OutputLimit, OutputLimits
from .rare_kinds import UNSIGNED, Collation, NoneOrEnough, RdbVersion, Samples, Unsigned

if TYPE_CHECKING:
    from .sentinel_settings import SentinelSettings

_MB: Final = 1 << 20

BOOL: Final = kinds.BOOL
BYTES: Final = kinds.Bytes()
TEXT: Final = kinds.Text()
COUNT: Final = kinds.Integer()
LONG: Final = kinds.Integer(maximum=LONG_MAX)
POSITIVE: Final = kinds.Integer(minimum=1)
PORT: Final = kinds.Integer(maximum=65535)
MEMORY: Final = kinds.MEMORY
SIGNALS: Final = kinds.Flags("default", "save", "nosave", "now", "force")
ACCESS: Final = kinds.Enum("no", "yes", "local")


class Config:
    """Every directive as a typed attribute, with Redis 8.10's defaults.

    The server reads attributes (``config.stream_node_max_entries``); clients go through ``get`` and ``set``.
    Values are immutable, so a changed setting is always a new object in the attribute.
    """

    # Listening
    port: int = _directive(6379, PORT)  # 0: any free port
    bind: tuple[str, ...] = _directive(("*", "-::*"), kinds.Bind())
    bind_source_addr: str = _directive("", TEXT)
    unixsocket: str = _fixed("", TEXT)
    unixsocketperm: int = _fixed(0, kinds.Octal())
    tcp_backlog: int = _fixed(511, COUNT)
    tcp_keepalive: int = _directive(300, COUNT)  # seconds
    timeout: int = _directive(0, COUNT)  # seconds
    protected_mode: bool = _directive(True, BOOL)
    maxclients: int = _directive(10000, kinds.Integer(1, UINT_MAX))
    max_new_connections_per_cycle: int = _directive(10, Unsigned(1, 1000), since="7.4")
    max_new_tls_connections_per_cycle: int = _directive(1, Unsigned(1, 1000), since="7.4")
    socket_mark_id: int = _fixed(0, kinds.Integer(0, UINT_MAX))
    proto_max_bulk_len: int = _directive(512 * _MB, kinds.Memory(minimum=_MB))
    client_query_buffer_limit: int = _directive(1024 * _MB, kinds.Memory(minimum=_MB))
    client_output_buffer_limit: OutputLimits = _directive(
        OutputLimits(
            OutputLimit(0, 0, 0), OutputLimit(256 * _MB, 64 * _MB, 60), OutputLimit(32 * _MB, 8 * _MB, 60)
        ),
        kinds.OutputLimitsKind(),
    )
    tracking_table_max_keys: int = _directive(1_000_000, UNSIGNED)

    # Access
    requirepass: bytes = _directive(b"", BYTES)
    acl_pubsub_default: str = _directive("resetchannels", kinds.Enum("allchannels", "resetchannels"))
    acllog_max_len: int = _directive(128, LONG)
    aclfile: str = _fixed("", TEXT)
    users: list[list[bytes]] = setting(list)  # the words of each `user` line, name first
    enable_debug_command: str = _fixed("no", ACCESS)
    enable_protected_configs: str = _fixed("no", ACCESS)
    enable_module_command: str = _fixed("no", ACCESS)

    # Process
    daemonize: bool = _fixed(False, BOOL)
    supervised: str = _fixed("no", kinds.Enum("no", "upstart", "systemd", "auto"))
    pidfile: str = _fixed("", TEXT)
    loglevel: str = _directive(
        "notice", kinds.Enum("debug", "verbose", "notice", "warning", "nothing", since={"nothing": (7, 2)})
    )
    logfile: str = _fixed("", TEXT)
    hide_user_data_from_log: bool = _directive(False, BOOL, since="7.4")
    syslog_enabled: bool = _fixed(False, BOOL)
    syslog_ident: str = _fixed("redis", TEXT)
    syslog_facility: str = _fixed(
        "local0", kinds.Enum("user", *(f"local{number}" for number in range(8)))
    )  # fmt: skip
    always_show_logo: bool = _fixed(False, BOOL)
    set_proc_title: bool = _fixed(True, BOOL)
    proc_title_template: str = _directive("{title} {listen-addr} {server-mode}", kinds.TitleTemplate())
    locale_collate: str = _directive("", Collation(), since="7.2")
    crash_log_enabled: bool = _directive(True, BOOL)
    crash_memcheck_enabled: bool = _directive(True, BOOL)
    ignore_warnings: str = _directive("", TEXT)
    oom_score_adj: str = _directive("no", kinds.Enum("no", "yes", "relative", "absolute"))
    oom_score_adj_values: tuple[int, ...] = _directive((0, 200, 800), kinds.OomValues())
    disable_thp: bool = _fixed(True, BOOL)
    server_cpulist: str = _fixed("", TEXT, alias="server_cpulist", since="7.2")
    bio_cpulist: str = _fixed("", TEXT, alias="bio_cpulist", since="7.2")
    aof_rewrite_cpulist: str = _fixed("", TEXT, alias="aof_rewrite_cpulist", since="7.2")
    bgsave_cpulist: str = _fixed("", TEXT, alias="bgsave_cpulist", since="7.2")
    io_threads: int = _fixed(1, kinds.Integer(1, 128))
    io_threads_do_reads: bool = _fixed(False, BOOL, until="8.0")
    lookahead: int = _directive(16, POSITIVE, since="8.4")  # commands
    hz: int = _directive(10, kinds.Integer(clamp=(1, 500)))
    dynamic_hz: bool = _directive(True, BOOL)
    jemalloc_bg_thread: bool = _directive(True, BOOL)
    shutdown_timeout: int = _directive(10, COUNT)  # seconds
    shutdown_on_sigint: str = _directive("default", SIGNALS)
    shutdown_on_sigterm: str = _directive("default", SIGNALS)
    busy_reply_threshold: int = _directive(5000, LONG, alias="lua-time-limit")  # milliseconds
    # Bytes of Lua for the scripts of EVAL, and as many again for functions; 0: no limit; Rillet only
    lua_memory_limit: int = _directive(512 * _MB, NoneOrEnough(4 * _MB))  # Lua and the libraries take a part
    propagation_error_behavior: str = _directive("ignore", kinds.Enum("ignore", "panic", "panic-on-replicas"))

    # Rillet's own
    compat_version: str = _directive(NEWEST, kinds.Enum(*VERSIONS))  # answer as this version of Redis

    repl_rdb_version: int = _directive(0, RdbVersion())  # of full syncs; 0: the replica decides

    # Data
    databases: int = _fixed(16, POSITIVE)
    stream_node_max_bytes: int = _directive(4096, MEMORY)
    stream_node_max_entries: int = _directive(100, LONG)
    # Newest chunks (128 entries) of a stream that are never compressed; 0: no chunk is compressed; Rillet only
    stream_compress_depth: int = _directive(8, COUNT)
    stream_idmp_duration: int = _directive(100, kinds.Integer(1, 86400), since="8.6")  # seconds
    stream_idmp_maxsize: int = _directive(100, kinds.Integer(1, 10000), since="8.6")
    hash_max_template_entries: int = _directive(0, LONG, since="8.10")
    hash_min_template_entries: int = _directive(0, LONG, since="8.10")
    hash_rdb_load_max_template_entries: int = _directive(0, LONG, since="8.10")
    hash_rdb_load_min_template_entries: int = _directive(0, LONG, since="8.10")
    hash_rdb_load_template_disassembly_threshold: int = _directive(0, LONG, since="8.10")
    array_slice_size: int = _directive(4096, kinds.PowerOfTwo("array-slice-size", 256, 65536), since="8.8")
    array_sparse_kmax: int = _directive(10, kinds.Integer(0, 256), since="8.8")
    array_sparse_kmin: int = _directive(5, kinds.Integer(0, 256), since="8.8")
    vset_force_single_threaded_execution: bool = _directive(False, BOOL, since="8.0")
    notify_keyspace_events: str = _directive("", Events())  # single letters, see Events
    hash_max_listpack_entries: int = _directive(512, UNSIGNED, alias="hash-max-ziplist-entries")
    hash_max_listpack_value: int = _directive(64, MEMORY, alias="hash-max-ziplist-value")
    list_max_listpack_size: int = _directive(
        -2, kinds.Integer(minimum=-INT_MAX - 1), alias="list-max-ziplist-size"
    )
    list_compress_depth: int = _directive(0, COUNT)
    set_max_intset_entries: int = _directive(512, UNSIGNED)
    set_max_listpack_entries: int = _directive(128, UNSIGNED, since="7.2")
    set_max_listpack_value: int = _directive(64, UNSIGNED, since="7.2")
    zset_max_listpack_entries: int = _directive(128, UNSIGNED, alias="zset-max-ziplist-entries")
    zset_max_listpack_value: int = _directive(64, MEMORY, alias="zset-max-ziplist-value")
    hll_sparse_max_bytes: int = _directive(3000, MEMORY)
    activerehashing: bool = _directive(True, BOOL)
    sanitize_dump_payload: str = _directive("no", kinds.Enum("no", "yes", "clients"))
    active_expire_effort: int = _directive(1, kinds.Integer(1, 10))

    lazyexpire_nested_arbitrary_keys: bool = _directive(True, BOOL, since="8.2", hidden="8.2")
    # Memory
    maxmemory: int = _directive(0, kinds.Memory(maximum=ULONG_MAX))
    maxmemory_policy: str = _directive(
        "noeviction",
        kinds.Enum(
            "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "volatile-lrm",
            "allkeys-lru", "allkeys-lfu", "allkeys-random", "allkeys-lrm", "noeviction",
            since={"volatile-lrm": (8, 6), "allkeys-lrm": (8, 6)},
        ),
    )  # fmt: skip
    maxmemory_samples: int = _directive(5, Samples(1, 64))
    maxmemory_eviction_tenacity: int = _directive(10, kinds.Integer(0, 100))
    maxmemory_clients: int = _directive(0, kinds.MemoryOrPercent())  # negative: per cent of maxmemory
    lfu_log_factor: int = _directive(10, COUNT)
    lfu_decay_time: int = _directive(1, COUNT)
    lazyfree_lazy_eviction: bool = _directive(False, BOOL)
    lazyfree_lazy_expire: bool = _directive(False, BOOL)
    lazyfree_lazy_server_del: bool = _directive(False, BOOL)
    lazyfree_lazy_user_del: bool = _directive(False, BOOL)
    lazyfree_lazy_user_flush: bool = _directive(False, BOOL)
    activedefrag: bool = _directive(False, BOOL)
    active_defrag_cycle_min: int = _directive(1, kinds.Integer(1, 99))
    active_defrag_cycle_max: int = _directive(25, kinds.Integer(1, 99))
    active_defrag_ignore_bytes: int = _directive(100 * _MB, kinds.Memory(minimum=1))
    active_defrag_threshold_lower: int = _directive(10, kinds.Integer(0, 1000))
    active_defrag_threshold_upper: int = _directive(100, kinds.Integer(0, 1000))
    active_defrag_max_scan_fields: int = _directive(1000, kinds.Integer(1, LONG_MAX))

    # Observation
    slowlog_log_slower_than: int = _directive(10000, kinds.Integer(-1, LONG_MAX))  # microseconds
    slowlog_max_len: int = _directive(128, LONG)
    # Words, the count included.
    slowlog_entry_max_argc: int = _directive(32, kinds.Integer(minimum=2), since="8.10")
    slowlog_entry_max_string_len: int = _directive(128, kinds.Integer(1, LONG_MAX), since="8.10")  # bytes
    key_memory_histograms: bool = _directive(False, BOOL, since="8.6")
    latency_monitor_threshold: int = _directive(0, LONG)  # milliseconds
    latency_tracking: bool = _directive(True, BOOL)
    latency_tracking_info_percentiles: tuple[float, ...] = _directive((50.0, 99.0, 99.9), kinds.Percentiles())

    # Persistence
    dir: str = _directive(os.getcwd, kinds.Directory(), protected=True)  # absolute
    dbfilename: str = _directive("dump.rdb", kinds.Filename("dbfilename", may_be_empty=True), protected=True)
    # The RDB version of files and of DUMP; 0: that of compat-version; Rillet only
    rdb_version: int = _directive(0, RdbVersion())
    rdb_skip_unknown_types: bool = _directive(False, BOOL)  # skip types that Rillet lacks; Rillet only
    save: tuple[tuple[int, int], ...] = _directive(((3600, 1), (300, 100), (60, 10000)), kinds.Save())
    rdbcompression: bool = _directive(True, BOOL)
    rdbchecksum: bool = _fixed(True, BOOL)
    rdb_del_sync_files: bool = _directive(False, BOOL)
    rdb_save_incremental_fsync: bool = _directive(True, BOOL)
    rdb_key_save_delay: int = _directive(0, kinds.Integer(-INT_MAX - 1), hidden="7.0")
    key_load_delay: int = _directive(0, kinds.Integer(-INT_MAX - 1), hidden="7.0")
    loading_process_events_interval_bytes: int = _directive(_MB // 2, kinds.Integer(1024), hidden="7.0")
    stop_writes_on_bgsave_error: bool = _directive(True, BOOL)
    appendonly: bool = _directive(False, BOOL)
    appendfsync: str = _directive("everysec", kinds.Enum("everysec", "always", "no"))
    appendfilename: str = _fixed("appendonly.aof", kinds.Filename("appendfilename"))
    appenddirname: str = _fixed("appendonlydir", kinds.Filename("appenddirname", "dirname"))
    no_appendfsync_on_rewrite: bool = _directive(False, BOOL)
    auto_aof_rewrite_percentage: int = _directive(100, COUNT)
    auto_aof_rewrite_min_size: int = _directive(64 * _MB, MEMORY)
    aof_rewrite_incremental_fsync: bool = _directive(True, BOOL)
    aof_load_truncated: bool = _directive(True, BOOL)
    aof_load_corrupt_tail_max_size: int = _directive(0, LONG, since="8.4")  # bytes
    aof_use_rdb_preamble: bool = _directive(True, BOOL)
    # False, True (a line #TS:<unix seconds> in each second) or "ms" (Rillet only: also #MS:<unix milliseconds>)
    aof_timestamp_enabled: bool | str = _directive(False, kinds.Timestamps())
    aof_disable_auto_gc: bool = _directive(False, BOOL, hidden="7.2")
    aof_history_retention: tuple[int, int] = _directive((0, 0), kinds.Retention())  # Rillet only

    preload_file: str = _fixed(
        "", kinds.Only(TEXT, "", "preload-file is not supported by Rillet"), since="8.10"
    )
    backupdirname: str = _fixed("backupdir", kinds.Filename("backupdirname", "dirname"), since="8.10")
    backup_sealed_ttl: int = _directive(0, LONG, since="8.10")
    # Replication
    replicaof: tuple[str, int] | None = _fixed(None, kinds.Master(), alias="slaveof")
    masterauth: bytes = _directive(b"", BYTES)
    masteruser: bytes = _directive(b"", BYTES)
    replica_read_only: bool = _directive(True, BOOL, alias="slave-read-only")
    replica_serve_stale_data: bool = _directive(True, BOOL, alias="slave-serve-stale-data")
    replica_priority: int = _directive(100, COUNT, alias="slave-priority")
    replica_announced: bool = _directive(True, BOOL)
    replica_announce_ip: str = _directive("", TEXT, alias="slave-announce-ip")
    replica_announce_port: int = _directive(0, PORT, alias="slave-announce-port")
    replica_ignore_maxmemory: bool = _directive(True, BOOL, alias="slave-ignore-maxmemory")
    replica_ignore_disk_write_errors: bool = _directive(False, BOOL)
    replica_lazy_flush: bool = _directive(False, BOOL, alias="slave-lazy-flush")
    replica_full_sync_buffer_limit: int = _directive(0, MEMORY, since="8.0")
    repl_backlog_size: int = _directive(_MB, kinds.Memory(minimum=1, clamp=(16384, LONG_MAX)))
    repl_backlog_ttl: int = _directive(3600, LONG)  # seconds
    repl_timeout: int = _directive(60, POSITIVE)  # seconds
    repl_ping_replica_period: int = _directive(10, POSITIVE, alias="repl-ping-slave-period")  # seconds
    repl_disable_tcp_nodelay: bool = _directive(False, BOOL)
    repl_diskless_sync: bool = _directive(True, BOOL)
    repl_diskless_sync_delay: int = _directive(5, COUNT)  # seconds
    repl_diskless_sync_max_replicas: int = _directive(0, COUNT)
    repl_diskless_load: str = _directive(
        "disabled", kinds.Enum("disabled", "on-empty-db", "swapdb", "flushdb", since={"flushdb": (8, 6)})
    )
    min_replicas_to_write: int = _directive(0, COUNT, alias="min-slaves-to-write")
    min_replicas_max_lag: int = _directive(10, COUNT, alias="min-slaves-max-lag")  # seconds

    # Cluster
    cluster_enabled: bool = _fixed(
        False,
        kinds.Only(
            BOOL, False, "a node of a cluster is started by `rillet cluster` or rillet.testing.Cluster"
        ),
    )  # set where a server joins one
    cluster_config_file: str = _fixed("nodes.conf", TEXT)
    cluster_port: int = _fixed(0, PORT)
    cluster_node_timeout: int = _directive(15000, LONG)
    cluster_announce_ip: str = _directive("", TEXT)
    cluster_announce_hostname: str = _directive("", TEXT)
    cluster_announce_human_nodename: str = _directive("", TEXT, since="7.2")
    cluster_announce_port: int = _directive(0, PORT)
    cluster_announce_bus_port: int = _directive(0, PORT)
    cluster_announce_tls_port: int = _directive(0, PORT)
    cluster_migration_barrier: int = _directive(1, COUNT)
    cluster_allow_replica_migration: bool = _directive(True, BOOL)
    cluster_allow_reads_when_down: bool = _directive(False, BOOL)
    cluster_allow_pubsubshard_when_down: bool = _directive(True, BOOL)
    cluster_require_full_coverage: bool = _directive(True, BOOL)
    cluster_replica_no_failover: bool = _directive(False, BOOL, alias="cluster-slave-no-failover")
    cluster_replica_validity_factor: int = _directive(10, COUNT, alias="cluster-slave-validity-factor")
    cluster_preferred_endpoint_type: str = _directive("ip", kinds.Enum("ip", "hostname", "unknown-endpoint"))
    cluster_link_sendbuf_limit: int = _directive(0, MEMORY)

    cluster_bus_port_protected_mode: bool = _directive(False, BOOL, since="8.10")
    cluster_compatibility_sample_ratio: int = _directive(0, kinds.Integer(0, 100), since="8.0")
    cluster_slot_migration_handoff_max_lag_bytes: int = _directive(_MB, MEMORY, since="8.4")
    cluster_slot_migration_write_pause_timeout: int = _directive(10000, LONG, since="8.4")  # milliseconds
    cluster_slot_stats_enabled: str = _directive(
        "no", kinds.Flags("no", "yes", "cpu", "net", "mem"), since="8.2"
    )
    # TLS
    tls_port: int = _directive(0, PORT)
    tls_replication: bool = _directive(False, BOOL)
    tls_cluster: bool = _directive(False, kinds.Only(BOOL, False, "there is no cluster"))
    tls_auth_clients: str = _directive("yes", kinds.Enum("no", "yes", "optional"))
    tls_auth_clients_user: str = _directive(
        "off",
        kinds.Only(kinds.Enum("CN", "off"), "off", "Rillet takes no user from a certificate"),
        since="8.6",
    )
    tls_expected_peer_name: str = _directive(
        "", kinds.Only(TEXT, "", "Rillet checks no name in the certificate of a peer"), since="8.10"
    )
    tls_cert_file: str = _directive("", TEXT)
    tls_key_file: str = _directive("", TEXT)
    tls_key_file_pass: str = _directive("", TEXT)
    tls_client_cert_file: str = _directive("", TEXT)
    tls_client_key_file: str = _directive("", TEXT)
    tls_client_key_file_pass: str = _directive("", TEXT)
    tls_ca_cert_file: str = _directive("", TEXT)
    tls_ca_cert_dir: str = _directive("", TEXT)
    tls_dh_params_file: str = _directive("", TEXT)
    tls_protocols: str = _directive("", TEXT)
    tls_ciphers: str = _directive("", TEXT)
    tls_ciphersuites: str = _directive(
        "",
        kinds.Only(
            TEXT, "", "Python leaves the suites of TLS 1.3 to OpenSSL; tls-ciphers sets those of TLS 1.2"
        ),
    )
    tls_prefer_server_ciphers: bool = _directive(False, BOOL)
    tls_session_caching: bool = _directive(True, BOOL)
    tls_session_cache_size: int = _directive(20480, COUNT)
    tls_session_cache_timeout: int = _directive(300, COUNT)

    # Hidden: Redis shows them only by their exact names
    watchdog_period: int = _directive(0, COUNT, hidden="7.0")
    use_exit_on_panic: bool = _directive(False, BOOL, hidden="7.0")
    lua_enable_deprecated_api: bool = _fixed(False, BOOL, hidden="7.0")
    cluster_ping_interval: int = _directive(0, LONG, since="8.0", hidden="8.0")  # milliseconds
    repl_rdb_channel: bool = _directive(True, BOOL, since="8.0", hidden="8.0")
    prefetch_batch_max_size: int = _directive(16, kinds.Integer(0, 128), since="8.0", hidden="8.0")
    cluster_slot_migration_max_archived_tasks: int = _directive(32, POSITIVE, since="8.4", hidden="8.4")
    cluster_slot_migration_sync_buffer_drain_timeout: int = _directive(60000, LONG, since="8.4", hidden="8.4")

    # Not directives
    renamed: dict[str, str] = setting(dict)  # rename-command: old names to new; "": disabled
    sentinel: SentinelSettings | None = setting(None)  # None: not in sentinel mode
    config_file: str | None = setting(None)  # absolute path; CONFIG REWRITE writes it
    _listeners: dict[str, list[Callable[[], None]]] = setting(dict)

    def __init__(self, **values: Any) -> None:
        """Set the given attributes, and all others to their defaults."""
        own = vars(self)
        own.update(_DEFAULTS)
        for name, make in _FACTORIES.items():
            own[name] = make()
        unknown = values.keys() - own.keys()
        if unknown:
            raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
        own.update(values)

    def get(self, patterns: Iterable[bytes]) -> dict[bytes, bytes]:
        """Reply to CONFIG GET: map the name of each directive that a word names, or a glob matches, to its value.

        A name keeps the spelling of the word. A glob does not find hidden directives.
        """
        found: dict[bytes, bytes] = {}
        seen: set[bytes] = set()
        for pattern in patterns:
            names = [pattern]
            if is_glob(pattern):
                fits = matcher(pattern, ignore_case=True)
                names = [
                    name for name, each in DIRECTIVES.items() if each.listed(self.version) and fits(name)
                ]
            for name in names:
                directive = self._known(name)
                if directive is not None and name.lower() not in seen:
                    seen.add(name.lower())
                    found[name] = self.text(directive)
        return found

    def text(self, directive: Directive) -> bytes:
        """Return the value of a directive as CONFIG GET shows it."""
        return directive.kind.as_of(self.version).format(getattr(self, directive.attribute))

    def in_dir(self, path: str) -> str:
        """Return the absolute path for the value of a directive; a relative path starts in ``dir``, and "" stays empty."""
        return os.path.join(self.dir, path) if path else ""  # noqa: PTH118 - paths may hold undecodable bytes

    @property
    def version(self) -> tuple[int, int]:
        """The emulated Redis version (``compat-version``) as (major, minor)."""
        return numbers(self.compat_version)

    def _known(self, name: bytes) -> Directive | None:
        found = DIRECTIVES.get(name.lower())
        return found if found is not None and found.known(self.version) else None

    def set(self, pairs: Sequence[tuple[bytes, bytes]], *, local: bool = True) -> None:
        """Apply all pairs of a CONFIG SET or none, then call the listeners of the changed directives.

        Args:
            pairs: names and values as the client sent them.
            local: whether the client is on this machine (for ``enable-protected-configs local``).

        Raises:
            ReplyError: a pair is invalid or a listener refuses its value; nothing has changed. The text is the reply.
        """
        chosen: dict[str, tuple[Directive, bytes]] = {}
        aliases_are_apart = self.version < (8, 8)
        for name, value in pairs:
            directive = self._known(name)
            if directive is None:
                raise ReplyError(
                    b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % shown(name)
                )
            if not directive.mutable:
                raise _failed(name, "can't set immutable config")
            if directive.protected and not self.allows(self.enable_protected_configs, local=local):
                raise _failed(name, "can't set protected config")
            one = directive.name if aliases_are_apart else directive.attribute
            if one in chosen:
                raise _failed(name, "duplicate parameter")
            chosen[one] = (directive, value)

        after: dict[str, Any] = {}
        changed_by: dict[str, Directive] = {}
        for directive, value in chosen.values():
            attribute = directive.attribute
            present = after.get(attribute, getattr(self, attribute))
            try:
                after[attribute] = directive.kind.as_of(self.version).parse(directive.words(value), present)
            except ValueError as error:
                raise _failed(directive.name.encode(), str(error)) from None
            changed_by[attribute] = directive
        self._apply(after, changed_by)

    @property
    def notify_mask(self) -> int:
        """notify-keyspace-events as bits of ``storage.keyspace.notifications``.

        It is 0 if none of K, E, S, T, I and V enables a channel.
        """
        return mask_of(self.notify_keyspace_events)

    def load(self, directive: Directive, words: list[bytes], *, again: bool) -> None:
        """Apply one directive of redis.conf or of the command line, given the words of its value.

        No listener is called.

        ``again``: whether the same load has named the directive before (save points accumulate).
        Raises ValueError: the words are invalid; the text says why.
        """
        if directive.kind.multiple:
            words = directive.words(words[0]) if len(words) == 1 else words
        elif len(words) != 1:
            raise ValueError("wrong number of arguments")
        present = getattr(self, directive.attribute)
        value = directive.kind.parse(words, present)
        setattr(self, directive.attribute, directive.kind.combine(present, value) if again else value)

    def on_change(self, name: str, listener: Callable[[], None]) -> None:
        """Call ``listener`` after CONFIG SET changed a directive (named as in redis.conf).

        The listener reads the new value from the attribute, and may raise ValueError(text) to refuse it. The whole
        CONFIG SET is then undone, and the listeners called so far are called again for the old values.
        """
        self._listeners.setdefault(DIRECTIVES[name.encode()].attribute, []).append(listener)

    def restore(self, values: Mapping[str, Any]) -> list[str]:
        """Restore earlier values of all attributes, and call the listeners of the changed ones.

        Return the texts of the listeners that refused.
        """
        own = vars(self)
        if own == values:
            return []
        changed = [name for name, value in values.items() if own[name] != value]
        own.update(values)
        refused = []
        for listener in [each for name in changed for each in self._listeners.get(name, ())]:
            try:
                listener()
            except ValueError as error:
                refused.append(str(error))
        return refused

    @staticmethod
    def allows(access: str, *, local: bool) -> bool:
        """Return True if ``no``, ``yes`` or ``local`` (of enable-debug-command etc.) allows a client."""
        return access == "yes" or (access == "local" and local)

    def default_of(self, directive: Directive) -> Any:
        """Return the value that a directive has if nothing sets it."""
        name = directive.attribute
        return _DEFAULTS[name] if name in _DEFAULTS else _FACTORIES[name]()

    def _apply(self, after: dict[str, Any], changed_by: dict[str, Directive]) -> None:
        before = {attribute: getattr(self, attribute) for attribute in after}
        changed = [attribute for attribute, value in after.items() if value != before[attribute]]
        for attribute, value in after.items():
            setattr(self, attribute, value)
        called: list[Callable[[], None]] = []
        for attribute in changed:
            for listener in self._listeners.get(attribute, ()):
                called.append(listener)
                try:
                    listener()
                except ValueError as error:
                    for name, value in before.items():
                        setattr(self, name, value)
                    for earlier in called:
                        with contextlib.suppress(ValueError):
                            earlier()
                    raise _failed(changed_by[attribute].name.encode(), str(error)) from None


def _failed(name: bytes, why: str) -> ReplyError:
    return ReplyError(
        b"ERR CONFIG SET failed (possibly related to argument '%b') - %b" % (name, os.fsencode(why))
    )


SETTINGS: Final = {name: value for name, value in vars(Config).items() if isinstance(value, Setting)}
_DEFAULTS: Final = {name: each.default for name, each in SETTINGS.items() if not callable(each.default)}
_FACTORIES: Final[dict[str, Callable[[], Any]]] = {
    name: each.default for name, each in SETTINGS.items() if callable(each.default)
}
DIRECTIVES: Final[Mapping[bytes, Directive]] = MappingProxyType(table(SETTINGS))
