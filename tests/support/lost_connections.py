"""Connections that redis-py forgets and does not close: when Python collects them is no matter of the test that runs then.

Up to 8.1 its clients of clusters and of sentinels forget a node that has lost its slots, or is another's replica.
"""

import pytest

# The marks of a module whose clients forget nodes.
LOSE_CONNECTIONS = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("lost_connections"),
]
