"""The data: keyspace, streams, consumer groups, and the files that keep them. It knows no clients and no sockets."""
