"""Rows into streams: encoded in tasks, published once by the driver."""
