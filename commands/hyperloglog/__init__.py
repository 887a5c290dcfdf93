"""HyperLogLogs in strings: PFADD, PFCOUNT, PFMERGE."""
