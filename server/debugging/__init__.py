"""What the running server keeps for DEBUG: recordings of commands, faults, and the way back to the start."""
