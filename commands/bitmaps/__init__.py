"""Strings as bits: SETBIT, BITCOUNT, BITFIELD."""
