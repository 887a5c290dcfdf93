from hypothesis import given
from hypothesis import strategies as st
from support.invariants import check_invariants

from rillet.storage.collections.deadlines import Deadlines
from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.hash import Hash

LIMITS = Limits(hash_max_listpack_entries=4, hash_max_listpack_value=6)
FIELDS = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f", b"longer field"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), FIELDS, st.binary(max_size=8), st.booleans()),
        st.tuples(st.just("discard"), FIELDS),
        st.tuples(st.just("expire"), FIELDS, st.integers(1, 9)),
        st.tuples(st.just("persist"), FIELDS),
        st.tuples(st.just("order")),
        st.tuples(st.just("copy")),
    ),
    max_size=40,
)


@given(STEPS)
def test_a_hash_behaves_as_two_dictionaries(steps):
    value, fields, times, table = Hash(), {}, {}, False
    for kind, *words in steps:
        if kind == "set":
            field, content, keep = words
            assert value.set(field, content, LIMITS, keep_time=keep) == (field not in fields)
            fields[field] = content
            if not keep:
                times.pop(field, None)
            table |= len(fields) > 4 or len(field) > 6 or len(content) > 6
        elif kind == "discard":
            assert value.discard(words[0]) == (fields.pop(words[0], None) is not None)
            times.pop(words[0], None)
        elif kind == "expire" and words[0] in fields:
            value.expire(*words)
            times[words[0]] = words[1]
        elif kind == "persist":
            assert value.persist(words[0]) == (times.pop(words[0], None) is not None)
        elif kind == "order":
            assert sorted(value.order().page(0, 100)[1]) == sorted(fields)
        elif kind == "copy":
            before, value = value, value.copy()
            for field in list(before.fields):
                before.discard(field)
        check_invariants(value)
        assert list(value.fields.items()) == list(fields.items())
        assert (value.times.when if value.times else {}) == times
        assert value.times is None or value.times.first()[0] == min(times.values())
        assert (value.encoding == b"hashtable") == table


def test_a_long_hash_takes_several_commands_of_64_fields():
    value = Hash()
    for number in range(130):
        value.set(b"%d" % number, b"v", LIMITS)
    assert [len(words) for words in value.commands(b"k")] == [130, 130, 6]


def test_payload_is_measured_when_small_and_estimated_when_large():
    value = Hash()
    value.set(b"ab", b"cde", LIMITS)
    assert value.payload_bytes == 5
    for number in range(1000):
        value.set(b"%06d" % number, b"1234", LIMITS)
    assert abs(value.payload_bytes - 10_000) < 200


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 5)), max_size=300))
def test_deadlines_know_the_first_and_do_not_pile_up(steps):
    deadlines = Deadlines()
    for name, when in steps:
        if when == 0:
            known = name in deadlines.when
            assert deadlines.forget(name) == known
        else:
            deadlines.set(name, when)
        first = deadlines.first()
        check_invariants(deadlines)
        if deadlines.when:
            assert deadlines.when[first[1]] == first[0] == min(deadlines.when.values())
        else:
            assert first is None
        assert len(deadlines.heap) <= 64 + 4 * 3


def test_bringing_forward_only_brings_forward():
    deadlines = Deadlines()
    deadlines.bring_forward(b"a", 5)
    deadlines.bring_forward(b"a", 7)
    assert deadlines.first() == (5, b"a")
    deadlines.bring_forward(b"a", 3)
    assert deadlines.first() == (3, b"a")
