"""The data: keyspace, streams, consumer groups and the append-only file. Knows no clients and no sockets."""
