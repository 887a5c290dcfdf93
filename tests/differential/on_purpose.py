"""THE list of differences: where Rillet does not answer as the real server of its version does, and why.

A line of a script names an entry of ON_PURPOSE as `## purpose:<name>`, one of NOT_AS_VALKEY as `## valkey:<name>`,
one of NOT_AS_BETWEEN as `## between:<name>`.
docs/differences.md is made from ON_PURPOSE.
"""

import sys
from dataclasses import dataclass

from rillet.server.config_bindings import WITHOUT_EFFECT


@dataclass(frozen=True)
class Purpose:
    """One difference: what it is about, what Redis 8.10.2 does, what Rillet does, and why."""

    about: str
    redis: str
    rillet: str
    why: str


# As the newest version, beside Redis 8.10.2.
ON_PURPOSE: dict[str, Purpose] = {
    # Lines of scripts.
    "one-reply": Purpose(
        "`SET key value GET IFDEQ` with a word that is no digest",
        "two replies, the value and the error: every later reply is off by one",
        "the error alone",
        "a client could no longer match replies to commands",
    ),
    "auth-at-exec": Purpose(
        "AUTH, or HELLO with AUTH, of a wrong password in MULTI, or sent behind a command that waits",
        "the reply to EXEC lacks an element, or there is no reply: the client waits for it",
        "the error is that element, or the reply",
        "a client must not hang",
    ),
    "user-gone-at-exec": Purpose(
        "in MULTI before other commands: ACL DELUSER of the client's user, or CLIENT KILL of the client",
        "the reply to EXEC ends there, although all commands run, and the connection closes",
        "the whole reply, and the connection closes",
        "a client must know what ran",
    ),
    "key-spec-notes": Purpose(
        "notes of key specifications in COMMAND INFO",
        "its own words",
        "other words",
        "Redis' texts are not ours to copy; no client reads them",
    ),
    "no-modules": Purpose(
        "the modules that HELLO and MODULE LIST show, and MODULE LOAD where `enable-module-command` lets it run",
        "its module of vector sets; loads a module",
        "none; an error that says so",
        "there are no modules, and no vector sets",
    ),
    # Generated runs leave these out.
    "turns": Purpose(
        "the order between clients, when one sends many commands at once, or more behind a command that waited",
        "all commands of one read of its socket run together",
        "other clients run after 2 ms, or after one longer command (a PFCOUNT of many keys)",
        "no client starves; without waiting for replies the order is undefined on both",
    ),
    "errors-in-pieces": Purpose(
        "a wrong length of an argument (`$x`, `$-1`, no `$` at all) in a request whose beginning came earlier",
        "no reply, and none to later requests",
        "`ERR Protocol error: invalid bulk length` or `expected '$'`, and the end of the connection, as 7.0 does",
        "a client must not hang",
    ),
    "endless-lengths": Purpose(
        "a count or a length of 65,536 characters and more; an inline command of 64 KB and more",
        "`invalid`, or `too big … count string`, if the end of the line has not come yet; likewise `too big inline request`, else it runs",
        "`too big … count string`; `too big inline request`",
        "the result must not depend on how the network cuts the request",
    ),
    "populate": Purpose(
        "DEBUG POPULATE with an append-only file or replicas",
        "the keys are in memory only",
        "the keys are propagated",
        "memory, file and replicas agree",
    ),
    "hash-templates": Purpose(
        "a hash made by HIMPORT: OBJECT ENCODING, its form in files and payloads, and the effect of HIMPORT SET",
        "`template-listpack` or `template-array`: hashes share the names of their fields; a RESTORE",
        "`listpack` or `hashtable`, and each hash with its names; an HSET. The files, payloads and effects of Redis are read",
        "field names are not shared in memory, and OBJECT ENCODING shows the form in use",
    ),
    "room-for-times": Purpose(
        "after a load: OBJECT ENCODING of a small hash that had field expiry times and has none now",
        "`listpackex`, as before",
        "`listpack`",
        "the file has no expiry times for it",
    ),
    "encodings-after-loading": Purpose(
        "OBJECT ENCODING of a small set, hash, list or sorted set after DEBUG RELOAD, a restart or RESTORE, if its limits have "
        "changed since, or the element that made it large is gone",
        "as it was, unless a limit forbids it",
        "the most compact one that the limits allow",
        "files and payloads hold only the elements",
    ),
    "digests": Purpose(
        "DEBUG DIGEST and DEBUG DIGEST-VALUE",
        "a hash over Redis' structures",
        "a different hash, equal for equal data: compare only servers of the same kind, as with Redis",
        "the algorithm is not part of the interface",
    ),
    "watched-after-flush": Purpose(
        "watch= in CLIENT LIST, watching_clients and total_watched_keys in INFO, once a key that a client watches has changed",
        "0, but after FLUSHALL, FLUSHDB, SWAPDB and DEBUG RELOAD, or a further WATCH, their number",
        "0",
        "EXEC can only fail, so the number means nothing",
    ),
    "client-order": Purpose(
        "the order of the lines of CLIENT LIST",
        "rotates while the server checks its clients",
        "by ID",
        "no order is promised",
    ),
    "many-key-sizes": Purpose(
        "Keysizes in INFO, and in INFO with `everything`, of more than 100,000 keys",
        "always there",
        "left out; INFO KEYSIZES alone counts them",
        "counting looks at every key",
    ),
    "names-with-nul": Purpose(
        "names of clients and libraries with a byte NUL",
        "accepted since 7.2, whatever follows the byte",
        "refused",
        "a name must not end its line of CLIENT LIST",
    ),
    "radix-tree-nodes": Purpose(
        "`radix-tree-nodes` of XINFO STREAM after whole nodes were deleted",
        "depends on the history of the tree",
        "the nodes of a tree that was never cut",
        "there is no radix tree; the figure is computed",
    ),
    "nodes-of-a-file": Purpose(
        "`radix-tree-keys` of XINFO STREAM and trims with `~`, once a stream whose entries were deleted has been in a file",
        "deleted entries still fill their node, until its last one is deleted",
        "a file has no deleted entries, so the last node takes as many more",
        "their fields are not kept: a file holds what clients can read",
    ),
    "zremrange-by-modification": Purpose(
        "ZREMRANGEBYRANK, ZREMRANGEBYSCORE and ZREMRANGEBYLEX under `allkeys-lrm` and `volatile-lrm`",
        "does not count as a modification of the key",
        "counts as a modification, like every other command that removes members",
        "a key that is written to must not be evicted first",
    ),
    "info-fields": Purpose(
        "INFO: `client_recent_max_*`, `current_cow_*`, `*_last_cow_size`, `current_save_keys_processed`, `total_net_repl_*`, "
        "`instantaneous_*_repl_kbps`, `expired_stale_perc`, `expired_time_cap_reached_count`, `expire_cycle_cpu_milliseconds`, "
        "`dump_payload_sanitizations`, `migrate_cached_sockets`, `mem_total_replication_buffers`, "
        "`replica_full_sync_buffer_*`, `reply_buffer_*`, `io_threaded_*`, `active_defrag_*`, `hash_template*`, `io_thread_0`",
        "figures of its buffers, forks, threads and cycles",
        "0, or the sums of all clients in `io_thread_0`; there is `rillet_version` besides, and no section Hotkeys",
        "there are no such buffers and threads; a field that a tool reads must be there",
    ),
    "active-clients": Purpose(
        "`active_clients` in INFO",
        "clients with input in about the last half second, also those that have disconnected",
        "without the disconnected ones",
        "the figure counts clients at work",
    ),
    "producers-without-ids": Purpose(
        "`pids-tracked` of XINFO STREAM after an XADD with IDMP that fails because the IDs of the stream are used up",
        "counts the producer, in memory only, not in file and replicas",
        "does not",
        "memory, file and replicas agree",
    ),
    "keys-of-clients-that-left": Purpose(
        "`tracking_total_keys` and `tracking_total_items` in INFO once the last client that tracked keys has disconnected",
        "its keys stay in the table until they change",
        "0",
        "no client would be notified, and each write would search the table",
    ),
    "watches-of-a-full-sync": Purpose(
        "WATCH of a key that is missing until a full sync from a master brings it",
        "EXEC runs",
        "EXEC fails: the key has changed",
        "a transaction must not run on data that it has not seen",
    ),
    "messages-in-units": Purpose(
        "PUBLISH in a script or a transaction beside one other effect, in the append-only file of a server with replicas, or with the "
        "backlog of a link that it had",
        "MULTI and EXEC around that effect, because the message counts, although only replicas get it",
        "the effect alone",
        "both load the same",
    ),
    "evictions-in-units": Purpose(
        "the keys that are evicted before the command of a client that waited runs again, as they are propagated",
        "one transaction",
        "each on its own",
        "nothing depends on the transaction",
    ),
    "watches-through-swaps": Purpose(
        "WATCH of a key past its time that two or more SWAPDBs then move, or that is met between them",
        "EXEC runs",
        "EXEC fails, as after one SWAPDB",
        "the client tries again; the databases have changed",
    ),
    "watches-of-7-0": Purpose(
        "as 7.0: WATCH of a key past its time that RESTORE with REPLACE then writes, whatever follows",
        "EXEC runs (7.0.15)",
        "EXEC fails, as since 7.2",
        "a transaction must not run on data that it has not seen",
    ),
    "hashes-without-times": Purpose(
        "`subexpiry` in INFO keyspace once the last time of a hash has gone with its field, or by HSET, HPERSIST and the like",
        "counts the hash until the active cycle has looked at it",
        "counts the hashes that have times",
        "the figure matches the data",
    ),
    "flags-of-queued-functions": Purpose(
        "EXEC without memory, as a replica or the like, where a queued function is no longer there or has other flags",
        "the flags that it had when it was queued decide whether EXEC may run",
        "its flags at the time of EXEC",
        "the function that runs decides",
    ),
    "looks-of-a-timer": Purpose(
        "`keyspace_hits` and `keyspace_misses` in INFO while a client waits in XREADGROUP BLOCK with CLAIM",
        "the command looks again and again at what has become idle, some twenty times a second, and counts each look",
        "the same, some ten times a second",
        "the pace of a timer is not part of the interface",
    ),
    "freed-later": Purpose(
        "`lazyfreed_objects` and `lazyfree_pending_objects` in INFO, but for what FLUSHALL and FLUSHDB remove",
        "large values that UNLINK or a lazyfree setting removed",
        "all large values that were removed",
        "all are freed in the background",
    ),
    "doctors": Purpose(
        "MEMORY DOCTOR, LATENCY DOCTOR and LOLWUT",
        "its own words and pictures",
        "other words",
        "only people read them, and Redis' texts are not ours to copy",
    ),
    "memory-stats-fields": Purpose(
        "the fields of MEMORY STATS",
        "one for each of Redis' structures",
        "the ones that also apply to Python's memory",
        "the others would mean nothing",
    ),
    "forms-of-payloads": Purpose(
        "the bytes of DUMP and of files for small values",
        "Redis' newest forms, compressed by LZF",
        "forms that older servers also load, not compressed",
        "all servers read both; applications see equal values",
    ),
    "orders-of-hash-tables": Purpose(
        "the order of FUNCTION LIST, of the replies to UNSUBSCRIBE and its relatives without a name, of the `pmessage`s of several "
        "patterns for one message, and of the clients and, as 7.0, keys that SWAPDB serves",
        "that of a hash table",
        "the order of creation",
        "no order is promised",
    ),
    "async-loading": Purpose(
        "`repl-diskless-load swapdb`",
        "a replica answers reads from its old data while it loads",
        "answers `LOADING`",
        "two data sets at once need twice the memory",
    ),
    "loadaof-without-a-file": Purpose(
        "DEBUG LOADAOF without `appendonly yes`",
        "an error, and no data is left",
        "an error, and the data stays",
        "a command for tests must lose nothing",
    ),
    "damaged-collections": Purpose(
        "a file or a payload with a field or member twice in a listpack, a score that is no number, members out of order, or a field "
        "without value",
        "loads it unless `sanitize-dump-payload` is on; later commands behave undefined; ends at a field without value",
        "refused, with the key in the message; members are sorted",
        "damage must be reported",
    ),
    "damaged-full-sync": Purpose(
        "a replica whose master sends a damaged snapshot",
        "ends",
        "says so in its log, keeps its data and tries again",
        "a replica serves what it has",
    ),
    "own-expiries-of-high-databases": Purpose(
        "a key in database 64 or above with an expiry time set on a writable replica",
        "hidden after that time, never deleted",
        "deleted, as in lower databases",
        "keeping it has no use",
    ),
    "link-killed-in-a-pause": Purpose(
        "a replica whose link is killed (CLIENT KILL) while CLIENT PAUSE holds what has arrived",
        "asks for a full synchronization, whose data appears in the pause",
        "continues by a partial one, and applies the rest behind the pause",
        "a pause changes no data, and a snapshot costs the master a fork",
    ),
    "file-of-a-full-sync": Purpose(
        "the file of a full synchronization by `repl-diskless-load disabled`",
        'becomes the dump file of the replica, even with `save ""`: a killed replica starts with it',
        "is deleted once it is loaded",
        "without saves configured, there must be no dump file",
    ),
    "folder-changed-meanwhile": Purpose(
        "CONFIG SET dir while an append-only file is loaded, or while BGREWRITEAOF runs",
        "goes on in the old folder; the rewrite fails",
        "the file begins in the new folder after the load, with all data; the rewrite ends in the old folder",
        "the next start reads the folder of the configuration",
    ),
    "full-sync-is-no-save": Purpose(
        "BGSAVE, SAVE and INFO during a full synchronization",
        "it is a background save: `rdb_bgsave_in_progress` is 1, BGSAVE and SAVE are refused",
        "it does not count as a save: `rdb_bgsave_in_progress` is 0, BGSAVE saves, and a replica's state is `send_bulk` from the start",
        "neither has to wait for the other",
    ),
    "new-id-of-a-replica": Purpose(
        "DEBUG CHANGE-REPL-ID on a replica",
        "the next PSYNC sends the master's ID",
        "it sends the new ID",
        "the subcommand is for tests of a full synchronization",
    ),
    "commands-of-replicas": Purpose(
        "a connection that has sent SYNC or PSYNC and then sends a command with a reply",
        "is closed",
        "gets the reply, between the commands of the stream",
        "replicas send only acknowledgements; other readers of the stream may send commands",
    ),
    "reply-mode-in-exec": Purpose(
        "CLIENT REPLY in MULTI",
        "takes effect at once: elements of the reply to EXEC, or its header, are missing",
        "the mode after EXEC decides about the whole reply",
        "a client could no longer match replies to commands",
    ),
    "times-as-7.0": Purpose(
        "as 7.0: PTTL, PEXPIRE and automatic IDs of streams in a script or a transaction",
        "time goes on (7.0.15), also for TIME",
        "time stands still, except for TIME",
        "a script has one time since 7.2, and expiry must agree with what it propagates",
    ),
    "pops-for-waiters-as-7.0": Purpose(
        "as 7.0: whether BCAST invalidates a list that serves BLPOP or BLMOVE after a push by a client under NOLOOP, or after SWAPDB",
        "no: only the push, by its client, is a change (7.0.15)",
        "as since 7.2: the waiting client has changed it",
        "a client would keep an empty list in its cache",
    ),
    "redirected-to-the-writer": Purpose(
        "as 7.0: the reply to a write, and the invalidation of another client's key that is redirected to the very client that writes",
        "in either order, by command (7.0.15)",
        "the invalidation, then the reply",
        "no client depends on it: pushes are marked as such",
    ),
    "rights-of-ones-own": Purpose(
        "as 7.0: ACL SETUSER by a client that takes from itself the right to a channel that it is subscribed to",
        "ends the server (7.0.15)",
        "closes the connection behind the reply, as since 7.2",
        "no client may end the server",
    ),
    "keys-of-pfmerge": Purpose(
        "as 7.0: the key of a PFMERGE without sources, for ACL and COMMAND GETKEYS",
        "no key is found: a user without rights to it may run the command (7.0.15)",
        "the key is found, as since 7.2",
        "ACL rules must hold for every command",
    ),
    "references-without-entries": Purpose(
        "XDELEX with DELREF that removes only references to entries already deleted",
        "removes the references in memory only: file and replicas keep them",
        "XDELEX is propagated",
        "memory, file and replicas agree",
    ),
    "reload-past-the-time": Purpose(
        "DEBUG RELOAD with a key that is past its time and was not noticed yet",
        "deletes the key in memory only: a following write to it is lost in the file",
        "DEL is propagated",
        "memory, file and replicas agree",
    ),
    "an-end-without-a-file": Purpose(
        "an end after `CONFIG SET appendonly yes`, while the first file is scheduled behind a BGSAVE, or its rewrite has failed",
        "ends; the next start has no data",
        "writes the file first, then ends; if that fails, the end is refused",
        "a shutdown must lose nothing",
    ),
    "load-in-a-transaction": Purpose(
        "DEBUG LOADAOF in MULTI, behind commands that wrote",
        "their effects are lost in memory, and are in the file behind EXEC",
        "they are lost in memory and file",
        "memory and file agree",
    ),
    "trims-by-policy": Purpose(
        "`MINID ~` with DELREF or ACKED, as XADD and XTRIM propagate it",
        "`MINID =` and the first ID of the remaining node: a replica keeps entries that the master removed",
        "`MINID =` and the ID after the last entry examined",
        "a replay must end with the same entries",
    ),
    "empty-first-node": Purpose(
        "the files and payloads of a stream whose first node a trim by MINID has left without entries",
        "hold that node, and Redis refuses to load them: `Bad data format`",
        "leave it out",
        "a file must load again",
    ),
    "stray-line-break": Purpose(
        "ACL rules whose last word ends in a line break (`+get|a\\n`, `+select|0\\n`)",
        "accepted where the command has no such subcommand",
        "refused",
        "the text would break an `aclfile`",
    ),
    "error-without-reply": Purpose(
        "a protocol error, QUIT, CLIENT KILL or ACL DELUSER of itself, or REPLICAOF during its wait, of a client under CLIENT REPLY OFF "
        "or SKIP",
        "no reply, and the connection stays open",
        "no reply, and the connection closes",
        "none of its later requests would run",
    ),
    "early-fsync": Purpose(
        "WAITAOF under `appendfsync everysec`, when only the next fsync is missing",
        "waits up to a second for it",
        "syncs at once",
        "the promise is the same, and tests need not wait",
    ),
    "codes-in-70": Purpose(
        "the codes of errors in INFO errorstats as 7.0",
        "without a limit",
        "128",
        "a client could fill the memory",
    ),
    "one-time-of-msetex": Purpose(
        "MSETEX with a time given twice (`EX 1 EX 2`), as it is propagated",
        "`EX 1 PXAT ms`, which no server loads",
        "the last time alone",
        "an append-only file must load again",
    ),
    "value-get": Purpose(
        "`SET key value GET IFEQ GET` (and IFNE): a comparison with the word GET, as it is propagated",
        "`SET key value IFEQ`, which no server loads",
        "`SET key value IFEQ GET`",
        "an append-only file must load again",
    ),
    "entries-read": Purpose(
        "entries-read of a group beyond 9223372036854775807 (entries-added before 8.10)",
        "becomes negative",
        "stays at that number",
        "a counter of entries is not negative",
    ),
    "idmp-expiry": Purpose(
        "an idempotent id (IDMP) whose entry is older than IDMP-DURATION",
        "known for up to a second longer, until a timer runs",
        "forgotten at once",
        "the result must not depend on a timer",
    ),
    "bitfield-that-fails": Purpose(
        "BITFIELD on a missing key whose every write OVERFLOW FAIL stops",
        "makes a key of zeros, which neither its file nor its replicas get",
        "makes no key",
        "memory, file and replicas agree",
    ),
    "bitfield-far-below": Purpose(
        "BITFIELD OVERFLOW SAT with a SET so far below zero that its distance to the largest value exceeds 64 bits",
        "the largest value",
        "the smallest value",
        "saturation ends at the nearer limit",
    ),
    "pause-at-exec": Purpose(
        "CLIENT PAUSE or REPLICAOF in MULTI, before a write to a key that is past its time",
        "ends the server: an assertion fails",
        "writes the key anew",
        "no client may end the server",
    ),
    "reload-wakes": Purpose(
        "DEBUG RELOAD while clients wait for keys that the file brings",
        "wakes only those in XREADGROUP; a list that appears serves nobody until the next push",
        "serves all waiting clients",
        "a client must not wait for existing data",
    ),
    "flush-in-two-protocols": Purpose(
        "the invalidation of FLUSHALL where tracking is redirected to a client of the other protocol",
        "a null of the protocol of the client that tracks",
        "a null of the protocol of the client that receives it",
        "its parser knows only that one",
    ),
    "frequencies-of-old-keys": Purpose(
        "OBJECT FREQ of a key that is older than the switch to an LFU policy",
        "computed from the access time that the earlier policy left",
        "5, as for a new key",
        "an access time is not a frequency",
    ),
    "equal-weights": Purpose(
        "SORT of elements of equal weight, among many or of a sorted set",
        "in the order of its sorting algorithm or hash table",
        "in the order of the collection",
        "no order is promised",
    ),
    "names-of-different-scores": Purpose(
        "ranges by name (BYLEX) in a large sorted set whose scores differ",
        "depends on the random levels of its skiplist",
        "the result of a walk over all members, as in a small sorted set",
        "Redis documents the result as unspecified",
    ),
    "counts-beyond-memory": Purpose(
        "XAUTOCLAIM with a COUNT too large for the machine's memory",
        "`ERR Insufficient memory, failed allocating transient memory, COUNT too high.`",
        "the entries",
        "no memory is reserved in advance",
    ),
    "help": Purpose(
        "replies of HELP, summaries and complexities of COMMAND DOCS",
        "its own words",
        "the same subcommands and grammar in other words",
        "Redis' texts are not ours to copy",
    ),
    "hash-order": Purpose(
        "the order of hash tables: SCAN and its relatives, KEYS, large sets and hashes; cursors, also invented ones",
        "by hash; such a cursor (-1 as 7.0) may be at the end",
        "in the order of insertion; such a cursor may be at the beginning",
        "no order is promised; every element is returned at least once",
    ),
    "refcounts": Purpose(
        "OBJECT REFCOUNT of a string, in the transaction that wrote it, and as 7.0 of a small number",
        "how many places of its memory hold the value: 3, or 2147483647 for a shared number",
        "1 (2147483647 for a number that 7.0 always shares)",
        "values are not shared with requests here",
    ),
    # What no run reaches.
    "commands-left-out": Purpose(
        "vector sets (V*), arrays (AR*), HOTKEYS, BACKUP, TRIMSLOTS, modules, PFDEBUG, PFSELFTEST",
        "served",
        "unknown commands, and COMMAND does not list them",
        "not needed by the clients and frameworks that the tests run",
    ),
    "no-cluster": Purpose(
        "`cluster-enabled yes`",
        "a node of a cluster",
        "the server does not start and says why",
        "a cluster of one machine is another product",
    ),
    "daemonize": Purpose(
        "the first process of `daemonize yes`",
        "ends at once, with status 0",
        "ends once clients are served, with status 0; if that fails, with status 1 and the reason on standard error",
        "a script that starts the server must learn that a port is taken",
    ),
    "include-folder": Purpose(
        "`include` of a folder, of a file that includes itself; rename-command of a subcommand",
        "reads nothing; crashes",
        "does not start, and says why",
        "an operator must learn of a mistake",
    ),
    "renamed-in-files": Purpose(
        "an append-only file with Redis' own names, where rename-command has others",
        "does not start",
        "is loaded",
        "a server must load files from before the setting",
    ),
    "renamed-help": Purpose(
        "HELP of a renamed container (`XG HELP`)",
        "its lines begin with the new name",
        "its lines begin with Redis' name",
        "the rest is equal",
    ),
    "without-effect": Purpose(
        "settings for parts that Rillet does not have, listed [below](#settings-without-effect)",
        "have effect",
        "are kept and shown; a value that is not the default is a warning in the log",
        "files of redis-server start unchanged",
    ),
    "migrate": Purpose(
        "MIGRATE in MULTI and scripts; a target that answers anything but `OK` or an error, or refuses AUTH or SELECT",
        "runs, and the whole server waits; counts as success; the keys arrive nevertheless, in database 0",
        "is refused; the keys stay; no key is sent",
        "no other server may block this one, and no key may be lost or arrive in the wrong database",
    ),
    "migrate-over-tls": Purpose(
        "MIGRATE under `tls-replication`",
        "connects by TLS",
        "connects without TLS",
        "MIGRATE is for the move of keys on one machine",
    ),
    "tls-names": Purpose(
        "`tls-auth-clients-user CN`, `tls-expected-peer-name`",
        "a certificate chooses the user; the name in the certificate of a peer is checked",
        "refused at the start and by CONFIG SET",
        "a setting that guards something is never accepted without effect",
    ),
    "valkey-replicas": Purpose(
        "times of hash fields in the snapshot for a replica that is Valkey",
        "no snapshot that Valkey loads",
        "a snapshot of RDB 11 without the times; the log counts them",
        "Valkey 9 has a format of its own for them",
    ),
    "events-within-replies": Purpose(
        "as 7.0: a client that is subscribed to the events of the keys that it changes",
        "sends the message within the array of the reply, where it counts as an element (7.0.15)",
        "sends it before the reply",
        "a client could not match its replies any more",
    ),
    "acl-rules-of-7-0": Purpose(
        "as 7.0: the rules that ACL LIST, GETUSER and SAVE show",
        "categories and commands computed from what the user may do, some in the order of a hash table (7.0.15)",
        "the rules as they were given, without those that later ones cancel, as since 7.2",
        "that order is chance; both forms mean the same when they are read again",
    ),
    "debug-structures": Purpose(
        "DEBUG HTSTATS, LISTPACK, QUICKLIST, SDSLEN and their like",
        "the structures as they are",
        "the structures that Redis would use for the data",
        "Rillet stores the data in another way",
    ),
    "too-many-read": Purpose(
        "the form in DUMP, files and full syncs of a group with entries-read above entries-added, after XSETID "
        "ENTRIESADDED, or where it reads on after XGROUP CREATE ENTRIESREAD",
        "that number; no server loads the stream, not even Redis itself",
        "the number of entries ever added",
        "no stream is lost; XINFO GROUPS shows the same as Redis until a restart",
    ),
    "debug-switches": Purpose(
        "DEBUG DICT-RESIZING, KEYSIZES-HIST-ASSERT, QUICKLIST-PACKED-THRESHOLD, REPLYBUFFER, REPLY-COPY-AVOIDANCE, "
        "SET-DISABLE-DENY-SCRIPTS",
        "tune or check Redis' own structures; let scripts call everything",
        "accepted without effect, and DEBUG HELP says so",
        "test suites send them first; there are no such structures, and nothing bypasses the sandbox",
    ),
    "buffers-of-clients": Purpose(
        "`qbuf-free`, `rbs`, `rbp`, `tot-mem` and `avg-pipeline-len-*` in CLIENT LIST, and thereby the moment at which a client exceeds "
        "`maxmemory-clients`",
        "its query and reply buffers, which keep the size of a large request for two seconds; the commands that each read parsed",
        "the bytes of the request that comes and of the replies that wait; the commands that ran, and all reads",
        "there are no such buffers",
    ),
    "clients-of-like-size": Purpose(
        "the client that `maxmemory-clients` evicts first, among clients with memory between the same two powers of two",
        "the one that reached that range first",
        "the largest",
        "the order by size is the promise",
    ),
    "long-soft-limits": Purpose(
        "CONFIG SET client-output-buffer-limit with 4294967296 seconds and more",
        "cut to 32 bits, 0 at worst",
        "refused, as 2147483648 is",
        "a limit must not vanish",
    ),
    "debug-ends": Purpose(
        "DEBUG ASSERT, CRASH-AND-RECOVER, LEAK, OOM, PANIC, RESTART, SEGFAULT, and those of parts that are not here (ASM-…, "
        "DROP-CLUSTER-PACKET-FILTER, REPL-PAUSE)",
        "crash, restart or fill the server; hold steps of its own",
        "unknown subcommands",
        "Rillet has other tools for faults and shutdowns (`DEBUG FAULT`, signals)",
    ),
    "options-with-nul": Purpose(
        'an option, a keyword or a setting with a byte NUL (`SET k v "GET\\0x"`, `CLIENT PAUSE 1 "WRITE\\0"`)',
        "the word ends at that byte",
        "another word, so an error",
        "a command that the client did not write must not run; no client sends such words",
    ),
    "reload-without-delay": Purpose(
        "`key-load-delay` in DEBUG RELOAD and DEBUG LOADAOF",
        "waits for each key, and other clients are answered `LOADING`",
        "does not wait; at the start and in a replica it does",
        "the reload is one command: a delay would serve no other client",
    ),
    "tail-calls": Purpose(
        "the name of a library's function in a Lua error after `local f = struct.pack return f(…)`",
        "`f`",
        "`pack`",
        "the libraries are written in Lua, where a tail call leaves no name",
    ),
    "lua": Purpose(
        "Lua: bytecode, the debugger, host functions, memory",
        "bytecode loads, SCRIPT DEBUG works, memory is that of the server",
        "no bytecode, no debugger, `lua-memory-limit` (512 MB), bounded patterns",
        "a script must neither leave its sandbox nor end the server",
    ),
    "negative-counts": Purpose(
        "SRANDMEMBER, HRANDFIELD, ZRANDMEMBER with a huge negative count",
        "builds the reply until the memory ends",
        "an error above 10 million elements or 512 MB",
        "one client must not stop all others",
    ),
    "sizes": Purpose(
        "MEMORY USAGE, used_memory, DEBUG OBJECT, encodings of MEMORY STATS",
        "bytes of its own structures",
        "bytes of Python objects",
        "the representation differs",
    ),
    "eviction": Purpose(
        "which keys `maxmemory` evicts, and how many",
        "by random samples",
        "by random samples",
        "random on both",
    ),
    "ctrl-c": Purpose(
        "SIGINT (Ctrl-C) while the data cannot be saved, with `shutdown-on-sigint default`",
        "the server keeps running, also after each further one",
        "ends, says how many changes are lost, and exits with status 1 if there are any",
        "Ctrl-C ends a program; SIGTERM, SHUTDOWN and `shutdown-on-sigint save` do as in Redis",
    ),
}

# Rillet that answers as 7.2 is compared with Valkey, which left Redis between 7.2 and 7.4. In these lines Valkey has
# its own mind (or what Redis brought with 7.4), and Rillet says what redis-server 7.0 does. As 7.0, it is redis-server
# 7.0 byte by byte, without any excuse.
NOT_AS_VALKEY: dict[str, str] = {
    "script-errors": "Valkey's own words",
    "hello": "Valkey's own name, version and module",
    "no-unauthenticated-errors": "Valkey checks the password first",
    "client-list-id": "Valkey's own text",
    "client-kill-id": "Valkey's own text",
    "valkey-acl-file": "Valkey's own text",
    "valkey-no-multi": "Valkey has a flag no_multi; the commands spoil the transaction",
    "valkey-flags": "Valkey's own flags",
    "valkey-subcommands": "Valkey sends an empty array",
    "valkey-readonly": "Valkey serves READONLY without a cluster",
    "valkey-lua-module": "Valkey's Lua is a module",
    "valkey-embstr": "Valkey's own limit",
    "valkey-expired-event": "Valkey's own event",
    "valkey-diskless-load": "Valkey's own word",
    "valkey-idle-trim": "Valkey's own idea",
    "valkey-geo-member": "Valkey's own text",
    "valkey-polygon": "Valkey's own option",
    "valkey-sort-numbers": "Valkey's own reader",
    "valkey-scan-type": "Valkey refuses a type that it does not know",
    "valkey-quotes": "Valkey's own parser",
    "valkey-crlf": "Valkey's own parser",
    "xread-plus": "since 7.4, and Valkey took it over",
    "xread-plus-after-delete": "since 7.4, and Valkey took it over",
}

# Beside the versions between 7.0 and the newest, which `make differential` runs.
NOT_AS_BETWEEN: dict[str, str] = {
    "keys-at-exec": "8.6 does not check the keys of a transaction again at EXEC: a right that was taken away still counts",
    "slot-stats": "cluster-slot-stats-enabled is a switch in 8.2, and no cluster is there to count",
}


def page() -> str:
    """docs/differences.md: `python tests/differential/on_purpose.py > docs/differences.md`."""
    lines = [
        "# Differences from Redis",
        "",
        "Rillet answers as Redis 8.10.2. Every script of `tests/differential/scripts/` and random commands of every family are",
        "compared with that server: replies in both protocols, the append-only file, events and invalidations. What differs,",
        "differs on purpose and stands here. As an older version (`--compat-version`) Rillet is compared with the server of",
        "that version. The list is `tests/differential/on_purpose.py`, and this page is made from it.",
        "",
        "| about | Redis 8.10.2 | Rillet | why |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| {each.about} | {each.redis} | {each.rillet} | {each.why} |" for each in ON_PURPOSE.values()]
    lines += ["", "## Settings without effect", "", "| settings | why |", "| --- | --- |"]
    reasons: dict[str, list[str]] = {}
    for name, why in WITHOUT_EFFECT.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    lines += [f"| {', '.join(names)} | {why} |" for why, names in reasons.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
