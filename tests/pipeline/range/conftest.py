import pytest

from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint


@pytest.fixture
def redis(running):
    """A connection to an empty redis-server, for what is the same on every server."""
    with Connection(Endpoint(port=running("redis7").port)) as connection:
        connection.call("FLUSHALL")
        yield connection
