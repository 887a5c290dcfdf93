"""What a recording says explains every byte that a client got, whatever faults hit its commands."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.alone import Alone
from support.thorough import examples
from support.wire import commands

from rillet.protocol.replies import command
from rillet.server.debugging.fault_spec import parse_fault

words = st.sampled_from(
    commands(
        "INCR a; INCR text; GET a; SET text vvvvvvvvvvvvvvvvvvvvvvvvvvvvvv; XADD s * f v; XRANGE s - +; MULTI; EXEC; DISCARD"
        "; HELLO 3; NONSENSE; CLIENT REPLY SKIP"
    )
)
effects = st.sampled_from(
    [["CLOSE", "before"], ["CLOSE", "after"], ["CLOSE", "midway"], ["SILENCE"], ["ERROR", "LOADING"]]
) | st.integers(0, 9).flatmap(
    lambda number: st.sampled_from([["REPLY-BYTES", str(number)], ["REPLY-BYTES", str(number), "SILENCE"]])
)
which = st.sampled_from([[], ["COMMAND", "INCR"], ["COMMAND", "XADD"], ["KEY", "a"], ["COMMAND", "EXEC"]])
counters = st.sampled_from(
    [[], ["NTH", "1"], ["NTH", "3"], ["EVERY", "2"], ["FIRST", "2"], ["PROBABILITY", "0.3"]]
)
faults = st.builds(lambda *parts: [word for part in parts for word in part], which, counters, effects)


@settings(max_examples=examples(150))
@given(
    st.lists(st.lists(words, min_size=1, max_size=8), max_size=6), st.lists(faults, max_size=3), st.booleans()
)
def test_the_history_explains_every_byte(batches, options, together):
    alone = Alone(recorded=True)
    server = alone.server
    [recording] = server.debugging.recorder.recordings.values()
    specs = {}
    for option in options:
        spec = parse_fault([word.encode() for word in option])
        specs[server.debugging.faults.add(spec)] = spec
    chunks = [b"".join(command([word.encode() for word in each]) for each in batch) for batch in batches]
    for chunk in [b"".join(chunks)] if together else chunks:
        if chunk:
            alone.send(0, chunk)

    expected, silent = b"", False
    for entry in recording.entries:
        reply, spec = entry.reply or b"", specs.get(entry.fault)
        part, closes = reply, False
        if spec is not None and spec.error is None:
            part = {b"before": b"", b"after": b"", b"midway": reply[: len(reply) // 2]}.get(
                spec.close or b"", reply[: spec.reply_bytes or 0]
            )
            closes = not spec.silence
        expected += (b"" if silent else part) + (b"closed" if closes else b"")
        silent = silent or part != reply or (spec is not None and spec.silence)
    transport = alone.clients[0].transport
    while hasattr(transport, "real"):
        transport = transport.real
    assert b"".join(transport.written) == expected
    if expected.endswith(b"closed"):
        assert recording.entries[-1].fault, "a command ran on a closed connection"
