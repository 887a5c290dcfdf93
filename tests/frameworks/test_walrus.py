"""walrus: every container, consumer groups, time series, Lua helpers, models."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.parametrize("kind", SERVERS)
def test_containers_groups_time_series_locks_and_models_work(kind):
    use("walrus", "light", kind)
