"""A zygote for the workers of this folder."""

from __future__ import annotations

import pytest
from support.auditing.forked import Zygote


@pytest.fixture(scope="session")
def zygote():
    made = Zygote()
    yield made
    made.close()
