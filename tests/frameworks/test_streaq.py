"""streaQ: a library of functions (FUNCTION LOAD, FCALL) over streams."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", [*SERVERS, "rillet-7.0"])
def test_tasks_wait_depend_and_abort_and_a_killed_workers_task_is_reclaimed(kind):
    use("streaq", "streaq", kind)
