"""Celery: the redis transport and result backend."""

from __future__ import annotations

import pytest
from support.frameworks import SERVERS, use


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", SERVERS)
def test_chains_groups_and_chords_work_and_a_killed_workers_task_is_restored(kind):
    use("celery", "celery", kind)
