"""DEBUG: what tests of servers and of applications ask for; guarded by enable-debug-command."""
