"""The topology as an object: what holds whatever happens to it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.thorough import examples

from rillet.protocol.key_slots import SLOTS
from rillet.server.cluster.topology import Topology

PICK = st.integers(0, 1 << 16)
SLOT = st.sampled_from([0, 1, 2, 5461, SLOTS - 1])


class Machine(RuleBasedStateMachine):
    """Random changes, those too that must be refused; a model of who owns the few slots."""

    def __init__(self) -> None:
        super().__init__()
        self.topology = Topology()
        self.model: dict[int, object] = {}
        self.heard = 0
        self.topology.listeners.append(self.hear)
        self.epochs = [0]
        first = self.topology.add()
        self.topology.assign(range(SLOTS), first.shard)
        self.model = dict.fromkeys((0, 1, 2, 5461, SLOTS - 1), first.shard)

    def hear(self) -> None:
        self.heard += 1

    def node(self, pick: int):
        return self.topology.nodes[pick % len(self.topology.nodes)]

    def shard(self, pick: int):
        return self.topology.shards[pick % len(self.topology.shards)]

    @rule(pick=PICK, alone=st.booleans())
    def add(self, pick, alone):
        before = self.heard
        node = self.topology.add(None if alone else self.shard(pick))
        assert node.is_master is alone
        assert self.heard > before

    @rule(slot=SLOT, pick=PICK)
    def assign(self, slot, pick):
        self.topology.assign([slot], self.shard(pick))
        self.model[slot] = self.shard(pick)
        assert slot not in self.shard(pick).importing

    @rule(slot=SLOT)
    def unassign(self, slot):
        self.topology.unassign([slot])
        self.model[slot] = None

    @rule(slot=SLOT, pick=PICK)
    def begin_move(self, slot, pick):
        to = self.shard(pick)
        if self.model[slot] in {None, to}:
            with pytest.raises(ValueError, match="slot"):
                self.topology.begin_move(slot, to)
            return
        self.topology.begin_move(slot, to)
        assert self.topology.owners[slot].migrating[slot] is to

    @rule(pick=PICK)
    def promote(self, pick):
        node = self.node(pick)
        self.topology.promote(node)
        assert node.is_master

    @rule(pick=PICK, other=PICK)
    def replicate(self, pick, other):
        node, master = self.node(pick), self.node(other)
        before = node.shard
        try:
            self.topology.replicate(node, master)
        except ValueError:
            assert node.shard is before
        else:
            assert node.shard is master.shard
            assert not node.is_master

    @rule(pick=PICK)
    def forget(self, pick):
        node = self.node(pick)
        if len(self.topology.nodes) == 1:
            return
        try:
            self.topology.forget(node)
        except ValueError:
            assert node in self.topology.nodes
            return
        assert node not in self.topology.nodes
        for slot, owner in self.model.items():
            if owner is node.shard and node.shard not in self.topology.shards:
                self.model[slot] = None

    @rule(pick=PICK, up=st.booleans())
    def set_running(self, pick, up):
        self.topology.set_running(self.node(pick), up)

    @rule(picks=st.lists(PICK, max_size=3))
    def part(self, picks):
        self.topology.part({self.node(pick) for pick in picks})

    @rule()
    def heal(self):
        self.topology.heal()
        assert {node.side for node in self.topology.nodes} == {0}

    @invariant()
    def owners_are_those_of_the_model(self):
        assert {slot: self.topology.owners[slot] for slot in self.model} == self.model

    @invariant()
    def each_shard_has_its_master_and_every_node_its_shard(self):
        for shard in self.topology.shards:
            assert shard.master in shard.nodes
            assert all(node.shard is shard for node in shard.nodes)

    @invariant()
    def nothing_points_at_a_shard_that_is_gone(self):
        shards = set(self.topology.shards)
        assert {owner for owner in self.topology.owners if owner is not None} <= shards
        for shard in shards:
            assert set(shard.migrating.values()) | set(shard.importing.values()) <= shards

    @invariant()
    def only_owned_slots_migrate(self):
        for shard in self.topology.shards:
            assert all(self.topology.owners[slot] is shard for slot in shard.migrating)

    @invariant()
    def the_ranges_are_the_owners(self):
        owners = [None] * SLOTS
        for first, last, owner in self.topology.ranges():
            owners[first : last + 1] = [owner] * (last - first + 1)
        assert owners == self.topology.owners

    @invariant()
    def epochs_are_never_above_the_highest_and_never_go_back(self):
        assert all(shard.epoch <= self.topology.epoch for shard in self.topology.shards)
        assert self.topology.epoch >= self.epochs[-1]
        self.epochs.append(self.topology.epoch)

    @invariant()
    def at_most_one_side_has_the_majority_and_only_it_is_up(self):
        running = [node for node in self.topology.nodes if node.running]
        sides = {node.side for node in running if self.topology.is_majority(node)}
        if any(self.topology.owners):
            assert len(sides) <= 1
        owners = set(self.topology.owners)
        for node in running:
            covered = all(owner is not None and self.topology.reaches(node, owner.master) for owner in owners)
            assert self.topology.is_ok(node, full_coverage=True) is (covered and node.side in sides)
            assert self.topology.is_ok(node, full_coverage=False) is (node.side in sides)


TestTopology = Machine.TestCase
TestTopology.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)


def test_listeners_hear_of_changes_in_one_another_once_at_their_end():
    topology = Topology()
    seen: list[bool] = []
    topology.listeners.append(lambda: seen.append(topology.owners[1] is not None))
    node = topology.add()
    seen.clear()
    with topology.changing():
        topology.assign([0], node.shard)
        topology.assign([1], node.shard)
    assert seen == [True]


def test_a_slot_that_turns_back_is_on_its_way_the_other_way():
    topology = Topology()
    here, there = topology.add().shard, topology.add().shard
    topology.assign([7], here)
    topology.begin_move(7, there)
    topology.turn_back(7)
    assert topology.owners[7] is there
    assert (there.migrating, here.importing) == ({7: here}, {7: there})
    assert here.migrating == there.importing == {}
