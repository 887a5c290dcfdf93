"""Directives: their kinds, redis.conf and CONFIG."""
