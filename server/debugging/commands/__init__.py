"""DEBUG: support for tests of servers and of applications; enable-debug-command guards it."""
