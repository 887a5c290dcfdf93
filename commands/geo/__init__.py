"""Positions in sorted sets: GEOADD, GEOSEARCH."""
