"""A script, a function and a transaction see one time, as in real servers: TIME, IDs of streams, expiry."""

import pytest
from support.servers import start_server

# Each returns 1 if the second look shows the time of the first one.
LOOKS = {
    "TIME": "local r=redis.call('TIME') return r[1]..'.'..r[2]",
    "an ID": "return string.match(redis.call('XADD','s','*','f','v'),'%d+')",
    "PEXPIRE": "redis.call('PEXPIRE','k',100000) return redis.call('PEXPIRETIME','k')",
    "SET PX": "redis.call('SET','q','v','PX',100000) return redis.call('PEXPIRETIME','q')",
    "an ID beside TIME": (
        "local t=redis.call('TIME') "
        "return string.match(redis.call('XADD','s2','*','f','v'),'%d+')-t[1]*1000-math.floor(t[2]/1000)"
    ),
    "a key past its time": "return redis.call('EXISTS','soon')",
}
BODY = "local function look() {} end local a=look() local n=0 repeat n=n+1 until n>2000000 return a==look() and 1 or 0"


def one_times(kind: str) -> dict[str, object]:
    """What stands still, by what looks: in EVAL, FCALL and MULTI."""
    seen: dict[str, object] = {}
    with start_server(kind) as server, server.wire() as wire:
        for name, look in LOOKS.items():
            wire.call("SET", "k", "v")
            wire.call("SET", "soon", "v", "PX", "5")
            seen[f"{name} in EVAL"] = wire.call("EVAL", BODY.format(look), "0").plain()
        body = BODY.format(LOOKS["TIME"])
        wire.call("FUNCTION", "LOAD", f"#!lua name=l\nredis.register_function('f', function() {body} end)")
        seen["TIME in FCALL"] = wire.call("FCALL", "f", "0").plain()
        wire.call("MULTI")
        for words in (["TIME"], ["EVAL", BODY.format("return 1"), "0"], ["TIME"]):
            wire.call(*words)
        first, _, last = wire.call("EXEC").plain()
        seen["TIME in MULTI"] = first == last
    return seen


@pytest.mark.parametrize("version", ["8.10", "7.0"])
def test_time_stands_still_where_it_does_on_real_servers(version):
    mine, real = ("rillet", "redis810") if version == "8.10" else ("rillet-7.0", "redis7")
    got, wanted = one_times(mine), one_times(real)
    if version == "7.0":  # times-as-7.0
        wanted |= {name: 1 for name in wanted if name.startswith(("an ID", "PEXPIRE", "SET PX"))}
        got |= {name: 1 for name in got if name.startswith(("an ID", "PEXPIRE", "SET PX"))}
    assert got == wanted


def test_two_scripts_of_one_batch_have_times_of_their_own():
    script = "local r=redis.call('TIME') for j=1,20000 do r[3]=j end return r[1]..r[2]"
    with start_server("rillet") as server, server.wire() as wire:
        for _ in range(20):
            wire.send("EVAL", script, "0")
        assert len({wire.read().value for _ in range(20)}) == 20
