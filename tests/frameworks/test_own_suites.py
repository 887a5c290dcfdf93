"""The tests that walrus and huey ship give the same on both servers."""

import pytest
from support.programs.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_the_suites_of_walrus_and_huey_pass(kind):
    use("own_suites", "light", kind)
