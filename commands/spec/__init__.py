"""The declarations of commands: records, keys, grammar, and differences between versions."""
