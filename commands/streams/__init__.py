"""Streams, one file a command: XADD, XREADGROUP, XCLAIM, XAUTOCLAIM."""
