"""Scripts such as libraries send: locks, limiters, queues; one as long as the longest that were seen."""

import pytest
import redis
from support.live import LiveServer


@pytest.fixture(scope="module")
def client():
    with LiveServer() as server, redis.Redis(port=server.port) as connection:
        yield connection


@pytest.fixture(autouse=True)
def empty(client):
    client.flushall()


def test_a_lock_is_released_and_extended_by_its_owner_alone(client):
    lock = client.lock("door", timeout=100)
    assert lock.acquire(blocking=False)
    assert not client.lock("door", timeout=100).acquire(blocking=False)
    assert lock.extend(50)
    assert client.ttl("door") > 100
    assert lock.reacquire()
    client.set("door", "somebody else's")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()
    client.delete("door")
    assert lock.acquire(blocking=False) is not None


def test_a_registered_script_is_loaded_again_after_a_flush(client):
    double = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1] * 2)")
    assert double(keys=["n"], args=[4]) == 8
    client.script_flush()
    assert double(keys=["n"], args=[1]) == 10


def test_a_pipeline_of_scripts(client):
    add = client.register_script("return redis.call('append', KEYS[1], ARGV[1])")
    with client.pipeline() as pipe:
        for letter in "abc":
            add(keys=["word"], args=[letter], client=pipe)
        assert pipe.execute() == [1, 2, 3]
    assert client.get("word") == b"abc"


QUEUE = """
local rcall = redis.call
local jobKey, streamKey, idKey = KEYS[1], KEYS[2], KEYS[3]
local options = cmsgpack.unpack(ARGV[1])
local data = cjson.decode(ARGV[2])
local id = options['id'] or tostring(rcall('INCR', idKey))
if rcall('EXISTS', jobKey .. ':' .. id) == 1 then
  rcall('XADD', streamKey, 'MAXLEN', '~', options.limit or 1000, '*', 'event', 'duplicated', 'id', id)
  return id
end
local fields = {}
for name, value in pairs(data) do
  fields[#fields + 1] = name .. '=' .. (type(value) == 'table' and cjson.encode(value) or tostring(value))
end
table.sort(fields)
rcall('SET', jobKey .. ':' .. id, table.concat(fields, ';'))
if bit.band(options.flags or 0, 4) ~= 0 then rcall('PEXPIRE', jobKey .. ':' .. id, 100000) end
rcall('XADD', streamKey, '*', 'event', 'added', 'id', id)
return {id, #fields, struct.size('>I4I8')}
"""

# {"flags": 4, "limit": 10} as MessagePack.
OPTIONS = b"\x82\xa5flags\x04\xa5limit\x0a"


def test_a_queue_keeps_jobs_and_events_in_one_step(client):
    add = client.register_script(QUEUE)
    assert add(["job", "events", "id"], [OPTIONS, '{"name": "mail", "to": ["a", "b"], "n": 1.5}']) == [
        b"1",
        3,
        12,
    ]
    assert client.get("job:1") == b'n=1.5;name=mail;to=["a","b"]'
    assert 0 < client.pttl("job:1") <= 100_000
    given = b"\x81\xa2id\xa11"
    assert add(["job", "events", "id"], [given, "{}"]) == b"1"
    assert [entry[1][b"event"] for entry in client.xrange("events")] == [b"added", b"duplicated"]


def test_a_script_of_forty_kilobytes(client):
    helpers = "\n".join(
        f"local function step{number}(key, by)\n"
        f"  -- adds {number} to a counter, and says so in its stream\n"
        f"  local value = redis.call('INCRBY', key, by + {number})\n"
        f"  if value > {number * 7} then redis.call('XADD', key .. ':log', '*', 'step', {number}) end\n"
        "  return value\n"
        "end"
        for number in range(150)
    )
    calls = "\n".join(f"total = step{number}(KEYS[1], tonumber(ARGV[1]))" for number in range(150))
    script = f"{helpers}\nlocal total = 0\n{calls}\nreturn total"
    assert len(script) > 40_000
    run = client.register_script(script)
    assert run(keys=["n"], args=[2]) == sum(range(150)) + 300
    assert run(keys=["n"], args=[2]) == 2 * (sum(range(150)) + 300)
