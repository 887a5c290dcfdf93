"""The state that the running server keeps for DEBUG: recordings, faults, snapshots, and the initial state for RESET."""
