"""A pytest plugin (``-p support.by_tcp``): servers in threads have clients by TCP, unless a test says otherwise."""

from rillet.testing import Server

Server._default_transport = "tcp"
