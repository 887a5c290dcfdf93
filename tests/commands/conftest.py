import pytest
from support.fake_server import make_client

from rillet.commands.runtime.client import Client


@pytest.fixture
def client() -> Client:
    """A client of a server without sockets."""
    return make_client()
