"""Random commands of every family on two connections: replies, the append-only file, events and invalidations.

`make differential COMMANDS=1000000` plays as many with each pair of servers; `make test` a few thousand, always the same.
"""

from __future__ import annotations

import os

import pytest
from differential.anything import BEGINNING, LOOKS, Maker
from differential.pairs import PAIRS
from differential.player import Played, describe, first_difference, shrink

COMMANDS = int(os.environ.get("RILLET_DIFFERENTIAL_COMMANDS") or 6_000)
# Each part has seeds of its own, so that workers share a long run.
PARTS = 4
SIZE = 40
RUNS = max(1, COMMANDS // PARTS // SIZE)
VERSIONS = {"rillet": "8.10", "rillet-7.0": "7.0", "rillet-8.6": "8.6", "rillet-8.2": "8.2"}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_random_commands_leave_the_same_as_on_the_real_server(mine, real, part):
    ours, theirs = Played(mine), Played(real)
    try:
        for seed in range(part * RUNS, (part + 1) * RUNS):
            run = Maker(seed, VERSIONS[mine]).run(SIZE)
            if first_difference(run, ours, theirs) is not None:
                pytest.fail(f"seed {seed}\n{describe(*shrink(run, ours, theirs))}", pytrace=False)
    finally:
        ours.close()
        theirs.close()


def test_a_seed_makes_the_same_run_again():
    assert Maker(7).run(50) == Maker(7).run(50) != Maker(8).run(50)


def test_a_run_begins_with_data_and_ends_with_looks():
    run = [words for _, words in Maker(1).run(10)]
    assert run[: len(BEGINNING)] == BEGINNING
    assert run[-len(LOOKS) :] == LOOKS


@pytest.mark.parametrize(
    "family", ["stream", "hash", "list", "set", "sorted-set", "string", "geo", "bitmap", "generic"]
)
def test_every_family_is_played_and_mostly_meant(family):
    maker = Maker(3, family=family)
    names = {maker.command()[0] for _ in range(2_000)}
    served = {record.name.partition("|")[0].upper() for record in maker.commands}
    assert served <= names
