"""Strings and counters: GET, SET, INCR, MSETEX, LCS."""
