"""pipeline/source/loss_detection.py: each case by name, and random histories against a reader that knows all of them."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.streams.stream_history import History, Version
from support.thorough import examples

from rillet.pipeline.source.loss_detection import Verdict, What, describe, entry_to_check, reconcile
from rillet.pipeline.source.packed_positions import pack, unpack
from rillet.pipeline.source.positions import Position, StreamSnapshot

HUNDRED = Version().add(*range(1, 101))


def read(version, upto=None, *, proven=True):
    """The position of a reader that saw a stream in this state, and has come to an id."""
    upto = version.last if upto is None else upto
    at = Position(upto, version.added - version.count_after(upto))
    return replace(at, snapshot=StreamSnapshot.of(version.state)) if proven else at


def rolled_back(lost, new, *, of=HUNDRED):
    """Lost its last entries, and got new ones."""
    kept = of.entries[: len(of.entries) - lost]
    older = replace(of, entries=kept, added=of.added - lost, last=kept[-1] if kept else 0)
    return older.add(*range(101, 101 + new)) if new else older


def judge(at, version):
    return reconcile(at, None if version is None else version.state, version or Version())


@dataclass(frozen=True)
class Case:
    at: Position
    now: Version | None
    what: What
    goes_on_after: int
    lost: int | None = 0
    unread: int = field(default=0, kw_only=True)


READ = read(HUNDRED)
HALF = read(HUNDRED, 50)
CAPPED = HUNDRED.trim(10)
CASES = {
    "nothing happened": Case(READ, HUNDRED, What.GOES_ON, 100),
    "new entries": Case(READ, HUNDRED.add(101, 102), What.GOES_ON, 100, unread=2),
    "read ones trimmed": Case(READ, HUNDRED.add(101).trim(3), What.GOES_ON, 100, unread=1),
    "all read ones trimmed": Case(READ, HUNDRED.trim(0).add(101), What.GOES_ON, 100, unread=1),
    "read ones deleted, the newest too": Case(READ, HUNDRED.delete(7).delete(100).add(101), What.GOES_ON, 100, unread=1),
    "the id set ahead": Case(READ, replace(HUNDRED, last=500), What.GOES_ON, 100),
    "read in part, nothing happened": Case(HALF, HUNDRED, What.GOES_ON, 50, unread=50),
    "unread ones trimmed": Case(HALF, HUNDRED.trim(10), What.GONE, 50, 40, unread=10),
    "unread ones deleted": Case(HALF, HUNDRED.delete(60).delete(100), What.GONE, 50, 2, unread=48),
    "an unread one deleted and its successors added": Case(HALF, HUNDRED.delete(60).add(101), What.GONE, 50, 1, unread=50),
    "unread ones taken out by XTRIM ACKED": Case(HALF, HUNDRED.take_out(60), What.GONE, 50, 1, unread=49),
    "all unread ones trimmed": Case(HALF, HUNDRED.trim(0), What.GONE, 50, 50),
    "1 lost, 1 new": Case(READ, rolled_back(1, 1), What.ROLLED_BACK, 100, 1, unread=1),
    "10 lost, 10 new": Case(READ, rolled_back(10, 10), What.ROLLED_BACK, 100, 10, unread=10),
    "10 lost, 30 new": Case(READ, rolled_back(10, 30), What.ROLLED_BACK, 100, 10, unread=30),
    "10 lost, 5 new": Case(READ, rolled_back(10, 5), What.ROLLED_BACK, 100, 10, unread=5),
    "10 lost, none new": Case(READ, rolled_back(10, 0), What.ROLLED_BACK, 90, 10),
    "all lost but one": Case(READ, rolled_back(99, 0), What.ROLLED_BACK, 1, 99),
    "10 lost, 30 new, an old one deleted": Case(READ, rolled_back(10, 30).delete(5), What.ROLLED_BACK, 100, 10, unread=30),
    "10 lost, 30 new, the read ones trimmed": Case(READ, rolled_back(10, 30).trim(30), What.ROLLED_BACK, 100, 10, unread=30),
    "unread ones lost": Case(HALF, rolled_back(10, 0), What.ROLLED_BACK, 50, None, unread=40),
    "unread ones lost, as many new": Case(HALF, rolled_back(10, 10), What.ROLLED_BACK, 50, None, unread=50),
    "unread ones lost, more new": Case(HALF, rolled_back(10, 30), What.ROLLED_BACK, 50, None, unread=70),
    "read and unread ones lost": Case(HALF, rolled_back(60, 5), What.ROLLED_BACK, 50, 10, unread=5),
    "a trim undone": Case(read(CAPPED), HUNDRED, What.ROLLED_BACK, 100, None),
    "back before all that was there": Case(read(CAPPED), Version().add(*range(1, 41)), What.ROLLED_BACK, 40, 60),
    "back before all that was there, and new ones": Case(read(CAPPED), Version().add(*range(1, 41), 101), What.ROLLED_BACK, 100, 60, unread=1),
    "back before it was trimmed to nothing": Case(read(HUNDRED.trim(0)), rolled_back(10, 2), What.ROLLED_BACK, 100, 10, unread=2),
    "the id set ahead and back": Case(read(replace(HUNDRED, last=500)), replace(HUNDRED, last=200), What.ROLLED_BACK, 200, None),
    "created again, empty": Case(READ, Version(), What.RECREATED, 0, None),
    "created again, few": Case(READ, Version().add(101, 102), What.RECREATED, 0, None, unread=2),
    "created again, as many": Case(READ, Version().add(*range(101, 201)), What.RECREATED, 0, None, unread=100),
    "created again, more": Case(READ, Version().add(*range(101, 301)), What.RECREATED, 0, None, unread=200),
    "created again, from 1 on": Case(read(Version().add(5, 6, 7)), Version().add(1, 2), What.RECREATED, 0, None, unread=2),
    "created again, from 1 on and past the position": Case(read(Version().add(5, 6, 7)), Version().add(1, 8), What.RECREATED, 0, None, unread=2),
    "created again, between": Case(read(Version().add(5, 50, 100)), Version().add(30, 40), What.RECREATED, 0, None, unread=2),
    "created again, from 1 on, more than were ever trimmed": Case(
        read(Version().add(*range(105, 110)).trim(2)),
        Version().add(*range(1, 5)), What.RECREATED, 0, None, unread=4,
    ),
    "deleted, all read": Case(READ, None, What.DELETED, 100),
    "deleted, half read": Case(HALF, None, What.DELETED, 50, 50),
    "deleted, nothing known of it": Case(read(HUNDRED, 50, proven=False), None, What.DELETED, 50),
    "deleted, begun in the middle and not counted": Case(replace(HALF, added=None), None, What.DELETED, 50, None),
    # Checkpoints that were written before there was a proof
    "without a proof: new entries": Case(read(HUNDRED, proven=False), HUNDRED.add(101), What.GOES_ON, 100, unread=1),
    "without a proof: 10 lost, 30 new": Case(read(HUNDRED, proven=False), rolled_back(10, 30), What.ROLLED_BACK, 100, 10, unread=30),
    "without a proof: 10 lost, none new": Case(read(HUNDRED, proven=False), rolled_back(10, 0), What.ROLLED_BACK, 90, 10),
    # Begun in the middle: how many were added up to there is not known
    "uncounted: new entries": Case(replace(READ, added=None), HUNDRED.add(101), What.GOES_ON, 100, unread=1),
    "uncounted: 10 lost, 30 new": Case(replace(READ, added=None), rolled_back(10, 30), What.ROLLED_BACK, 100, None, unread=30),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_case_has_its_verdict_once(case):
    """A query that goes on does not meet the same again: no loss that only a new checkpoint cures."""
    verdict = judge(case.at, case.now)
    assert (verdict.what, verdict.position.id, verdict.lost) == (case.what, case.goes_on_after, case.lost)
    if case.now is not None:
        assert case.now.count_after(verdict.position.id) == case.unread
    again = judge(verdict.position, case.now)
    assert not again.is_loss
    assert again.position == verdict.position


def test_before_redis_7_only_ids_and_entries_say_something():
    def old(version):
        return replace(version.state, added=None, max_deleted=None)

    at = replace(READ, added=None, snapshot=StreamSnapshot(1, 100, None, None))
    assert reconcile(at, old(HUNDRED.add(101)), HUNDRED) == Verdict(What.GOES_ON, at)
    lost = reconcile(at, old(rolled_back(10, 0)), rolled_back(10, 0))
    assert (lost.what, lost.position.id) == (What.ROLLED_BACK, 90)
    low = Version().add(30, 40)
    assert reconcile(at, old(low), low).what is What.RECREATED


@pytest.mark.parametrize(
    ("at", "now", "said"),
    [
        (HALF, HUNDRED.trim(10), ["40 entries", "trimmed or deleted before they were read", "without them"]),
        (READ, rolled_back(10, 5), ["rolled back", "0-100 after 100 entries", "0-105 after 95", "10 of them", "after 0-100"]),
        (HALF, rolled_back(10, 0), ["rolled back", "0-90", "after 0-50, with the new"]),
        (READ, Version().add(101), ["deleted and created again", "from its start"]),
        (HALF, None, ["was deleted with 50 entries after 0-50", "when it is created again"]),
    ],
)  # fmt: skip
def test_what_happened_is_said_with_what_to_do(at, now, said):
    verdict = judge(at, now)
    text = " | ".join(describe("orders", at, None if now is None else now.state, verdict))
    assert [each for each in said if each not in text] == []
    assert "'orders'" in text


def test_a_server_is_asked_only_where_something_is_in_doubt():
    class Silent:
        def has(self, stream_id):
            raise AssertionError(f"asked for {stream_id}")

        count_after = has

    class Witnesses(Silent):
        def has(self, stream_id):
            return stream_id == 100

    assert reconcile(READ, HUNDRED.state, Silent()).what is What.GOES_ON
    assert reconcile(READ, HUNDRED.trim(0).add(101).state, Silent()).what is What.GOES_ON
    new = HUNDRED.add(101).trim(60).state
    assert entry_to_check(READ, new) == 100
    assert reconcile(READ, new, Witnesses()).what is What.GOES_ON
    assert reconcile(READ, HUNDRED.add(101, 102).state, Witnesses()).what is What.GOES_ON


# After a restart from a packed offset, which has no first entry


def forgetful(at):
    """The position as it comes back from a packed offset."""
    return unpack(pack({"s": at}))["s"]


RESTARTS_FROM_LOWER_IDS = [
    name for name in CASES if name.startswith(("created again, from 1", "created again, between"))
]


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_its_verdict_without_the_first_entry_that_was_seen(name):
    case = CASES[name]
    verdict = judge(forgetful(case.at), case.now)
    if name in RESTARTS_FROM_LOWER_IDS:
        # Only explicit ids do this. It is a loss still, but nothing tells it from a rollback.
        assert (verdict.what, verdict.is_loss) == (What.ROLLED_BACK, True)
    else:
        assert (verdict.what, verdict.position.id, verdict.lost) == (case.what, case.goes_on_after, case.lost)


# Random histories


class Reader:
    """Goes on after every loss, and compares each verdict with what happened.

    Attributes:
        found: the entries that it read, in order.
        missed: the ids that its position passed while there was no entry of this id.
    """

    def __init__(self):
        self.at = Position(0, 0)
        self.found = []
        self.missed = set()

    def look(self, history, limit):
        now = history.now
        verdict = judge(self.at, now)
        self.check(history, verdict)
        position = verdict.position
        assert position.id <= self.at.id
        if now is not None and not verdict.is_another_history:
            rows = [each for each in now.entries if each > position.id][:limit]
            self.found += rows
            whole = not rows or rows[-1] == now.entries[-1]
            passed = range(position.id + 1, (now.last if whole else rows[-1]) + 1)
            self.missed |= set(passed).difference(now.entries)
            position = position.moved(passed[-1] if passed else position.id, position.added + len(rows))
        if now is not None and position != self.at:
            position = replace(position, snapshot=StreamSnapshot.of(now.state))
        self.at = position
        if now is not None:
            history.is_same = True

    def check(self, history, verdict):
        now, snapshot = history.now, self.at.snapshot
        if now is None:
            assert verdict.what is What.DELETED
        elif history.is_same:
            assert verdict.what in {What.GOES_ON, What.GONE}
            assert verdict.lost >= 0
        elif (
            snapshot is not None
            and snapshot.newest is not None
            and now.added - len(now.entries) == snapshot.removed
        ):
            # Nothing was removed that could explain it.
            assert verdict.is_another_history or now.has(snapshot.newest)


steps = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 8)),
    st.tuples(st.sampled_from(["trim", "delete", "take out"]), st.integers(0, 12)),
    st.tuples(st.just("set id"), st.integers(1, 5)),
    st.tuples(st.just("save"), st.none()),
    st.tuples(st.just("roll back"), st.integers(0, 5)),
    st.tuples(st.just("delete key"), st.none()),
    st.tuples(st.just("read"), st.sampled_from([1, 3, 100])),
    st.tuples(st.just("restart"), st.none()),
)


def change(history, what, number):
    if what in {"trim", "delete", "take out"}:
        history.remove(what, number)
    elif what not in {"read", "restart"}:
        getattr(history, what.replace(" ", "_"))(*[number] * (number is not None))


@settings(max_examples=examples(600))
@given(st.lists(steps, max_size=40))
@example([("add", 8), ("read", 100), ("save", None), ("add", 4), ("read", 100), ("roll back", 0), ("add", 8)])
@example([("add", 1), ("save", None), ("trim", 0), ("read", 100), ("roll back", 0)])
def test_nothing_new_is_left_out_and_nothing_known_is_read_twice(plan):
    history, reader = History(), Reader()
    for what, number in plan:
        if what == "read":
            reader.look(history, number)
        elif what == "restart":
            reader.at = forgetful(reader.at)
        else:
            change(history, what, number)
    for _ in range(3):
        reader.look(history, 1000)
    assert len(reader.found) == len(set(reader.found))
    there = set(history.now.entries) if history.now else set()
    assert there <= set(reader.found) | reader.missed
    assert not judge(reader.at, history.now).is_loss


@settings(max_examples=examples(600))
@given(st.lists(steps, max_size=12), st.lists(steps, max_size=12), st.integers(0, 100))
def test_a_loss_is_one_without_the_first_entry_too(before, after, share):
    """But where a rollback brought the head back, and as much was deleted again behind it: nothing new is lost then."""
    history = History()
    for what, number in before:
        change(history, what, number)
    if (seen := history.now) is None:
        return
    at = read(seen, seen.last * share // 100)
    history.is_same = True
    for what, number in after:
        change(history, what, number)
    remembered, forgotten = judge(at, history.now), judge(forgetful(at), history.now)
    if remembered.is_loss and not forgotten.is_loss:
        assert not history.is_same
        assert history.now.state.first < seen.state.first
    if history.is_same:
        assert (forgotten.what, forgotten.lost) == (remembered.what, remembered.lost)


@settings(max_examples=examples(200))
@given(st.integers(1, 20), st.integers(1, 30), st.integers(1, 20), st.integers(0, 20))
def test_what_is_gone_is_counted_exactly(before, more, upto, trimmed):
    version = Version().add(*range(1, before + 1))
    at = read(version, min(upto, before))
    later = version.add(*range(before + 1, before + more + 1)).trim(trimmed)
    gone = sum(each > at.id and not later.has(each) for each in range(1, before + more + 1))
    verdict = judge(at, later)
    assert (verdict.what, verdict.lost) == ((What.GONE, gone) if gone else (What.GOES_ON, 0))
