"""The tests that huey ships give the same on both servers."""

import pytest
from support.programs.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_the_suite_of_huey_passes(kind):
    use("own_suites", "light", kind)
