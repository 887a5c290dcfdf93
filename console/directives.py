"""Directives whose values are not secret, of Redis 7.0 to 8.10, Valkey 9.1 and sentinels.

A read-only console shows only these values: a directive of another version or of a module may be a password.
"""

from __future__ import annotations

from typing import Final

SHOWN: Final = frozenset(
    b"""
    acl-pubsub-default aclfile acllog-max-len active-defrag-cycle-max active-defrag-cycle-min active-defrag-cycle-us
    active-defrag-ignore-bytes active-defrag-max-scan-fields active-defrag-threshold-lower
    active-defrag-threshold-upper active-expire-effort activedefrag activerehashing always-show-logo
    announce-hostnames announce-ip announce-port aof-disable-auto-gc aof-history-retention
    aof-load-corrupt-tail-max-size aof-load-truncated aof-rewrite-cpulist aof-rewrite-incremental-fsync
    aof-timestamp-enabled aof-use-rdb-preamble aof_rewrite_cpulist appenddirname appendfilename appendfsync appendonly
    array-slice-size array-sparse-kmax array-sparse-kmin auto-aof-rewrite-min-size auto-aof-rewrite-percentage
    availability-zone backup-sealed-ttl backupdirname bgsave-cpulist bgsave_cpulist bind bind-source-addr bio-cpulist
    bio_cpulist busy-reply-threshold client-output-buffer-limit client-query-buffer-limit
    cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down cluster-allow-replica-migration
    cluster-announce-bus-port cluster-announce-client-ipv4 cluster-announce-client-ipv6 cluster-announce-client-port
    cluster-announce-client-tls-port cluster-announce-hostname cluster-announce-human-nodename cluster-announce-ip
    cluster-announce-port cluster-announce-tls-port cluster-blacklist-ttl cluster-bus-port-protected-mode
    cluster-compatibility-sample-ratio cluster-config-file cluster-config-save-behavior cluster-databases
    cluster-enabled cluster-link-sendbuf-limit cluster-manual-failover-timeout cluster-migration-barrier
    cluster-node-timeout cluster-port cluster-preferred-endpoint-type cluster-replica-no-failover
    cluster-replica-validity-factor cluster-require-full-coverage cluster-slave-no-failover
    cluster-slave-validity-factor cluster-slot-migration-handoff-max-lag-bytes cluster-slot-migration-log-max-len
    cluster-slot-migration-write-pause-timeout cluster-slot-stats-enabled commandlog-execution-slower-than
    commandlog-large-reply-max-len commandlog-large-request-max-len commandlog-reply-larger-than
    commandlog-request-larger-than commandlog-slow-execution-max-len compat-version crash-log-enabled
    crash-memcheck-enabled daemonize databases dbfilename dir disable-thp dual-channel-replication-enabled dynamic-hz
    enable-debug-command enable-module-command enable-protected-configs extended-redis-compatibility
    hash-max-listpack-entries hash-max-listpack-value hash-max-template-entries hash-max-ziplist-entries
    hash-max-ziplist-value hash-min-template-entries hash-rdb-load-max-template-entries
    hash-rdb-load-min-template-entries hash-rdb-load-template-disassembly-threshold hide-user-data-from-log
    hll-sparse-max-bytes hz ignore-warnings import-mode io-threads io-threads-do-reads jemalloc-bg-thread
    key-memory-histograms latency-monitor-threshold latency-tracking latency-tracking-info-percentiles
    lazyfree-lazy-eviction lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del
    lazyfree-lazy-user-flush lfu-decay-time lfu-log-factor list-compress-depth list-max-listpack-size
    list-max-ziplist-size locale-collate log-format log-timestamp-format logfile loglevel lookahead lua-memory-limit
    lua-time-limit max-new-connections-per-cycle max-new-tls-connections-per-cycle maxclients maxmemory
    maxmemory-clients maxmemory-eviction-tenacity maxmemory-policy maxmemory-samples min-replicas-max-lag
    min-replicas-to-write min-slaves-max-lag min-slaves-to-write mptcp no-appendfsync-on-rewrite
    notify-keyspace-events oom-score-adj oom-score-adj-values pidfile port prefetch-batch-max-size preload-file
    proc-title-template propagation-error-behavior protected-mode proto-max-bulk-len rdb-del-sync-files
    rdb-save-incremental-fsync rdb-skip-unknown-types rdb-version rdb-version-check rdbchecksum rdbcompression
    rdma-bind rdma-completion-vector rdma-port rdma-rx-size repl-backlog-size repl-backlog-ttl
    repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync repl-diskless-sync-delay
    repl-diskless-sync-max-replicas repl-mptcp repl-ping-replica-period repl-ping-slave-period repl-rdb-version
    repl-timeout replica-announce-ip replica-announce-port replica-announced replica-full-sync-buffer-limit
    replica-ignore-disk-write-errors replica-ignore-maxmemory replica-lazy-flush replica-priority replica-read-only
    replica-serve-stale-data replicaof resolve-hostnames sanitize-dump-payload save server-cpulist server_cpulist
    set-max-intset-entries set-max-listpack-entries set-max-listpack-value set-proc-title shutdown-on-sigint
    shutdown-on-sigterm shutdown-timeout slave-announce-ip slave-announce-port slave-ignore-maxmemory slave-lazy-flush
    slave-priority slave-read-only slave-serve-stale-data slaveof slot-migration-max-failover-repl-bytes
    slowlog-entry-max-argc slowlog-entry-max-string-len slowlog-log-slower-than slowlog-max-len socket-mark-id
    stop-writes-on-bgsave-error stream-compress-depth stream-idmp-duration stream-idmp-maxsize stream-node-max-bytes
    stream-node-max-entries supervised syslog-enabled syslog-facility syslog-ident tcp-backlog tcp-keepalive timeout
    tls-auth-clients tls-auth-clients-user tls-auto-reload-interval tls-ca-cert-dir tls-ca-cert-file tls-cert-file
    tls-ciphers tls-ciphersuites tls-client-cert-file tls-client-key-file tls-cluster tls-dh-params-file
    tls-expected-peer-name tls-key-file tls-port tls-prefer-server-ciphers tls-protocols tls-replication
    tls-session-cache-size tls-session-cache-timeout tls-session-caching tracking-table-max-keys unixsocket
    unixsocketgroup unixsocketperm vset-force-single-threaded-execution zset-max-listpack-entries
    zset-max-listpack-value zset-max-ziplist-entries zset-max-ziplist-value
    """.split()
)
