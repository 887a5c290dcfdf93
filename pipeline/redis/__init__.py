"""The connection to the server, its options, ids and keys, and the state of a stream, for the rest of the pipeline."""
