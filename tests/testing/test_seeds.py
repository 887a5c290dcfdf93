"""`Server(seed=…)` and `Server.save_seed()`: what a server holds at its start."""

from pathlib import Path

import pytest
import redis

import rillet.testing


def contents(server: rillet.testing.Server) -> dict[str, object]:
    with server.client(decode_responses=True) as client:
        return {key: client.type(key) for key in sorted(client.keys())}


def expect_seed(server: rillet.testing.Server, key: str = "k") -> None:
    """The seed is there at the start, after a reset, and as the only data."""
    with server.client(decode_responses=True) as client:
        assert client.keys() == [key]
        client.flushall()
        client.set("other", "v")
        server.reset()
        assert client.keys() == [key]


def test_a_dump_file_is_a_seed(tmp_path, process):
    path = tmp_path / "seed.rdb"
    with rillet.testing.Server() as server, server.client() as client:
        client.set("k", "v")
        client.function_load("#!lua name=lib\nredis.register_function('f', function() return 1 end)")
        server.save_seed(path)
    with rillet.testing.Server(seed=path, process=process) as server:
        expect_seed(server)
        assert server.client().fcall("f", 0) == 1


def test_an_append_only_folder_is_a_seed_and_stays_as_it_is(tmp_path):
    with rillet.testing.Server(dir=tmp_path, appendonly=True, appendfilename="mine.aof") as server:
        server.client().set("k", "v")
    folder = tmp_path / "appendonlydir"
    torn = folder / "mine.aof.1.incr.aof"
    torn.write_bytes(torn.read_bytes() + b"*3\r\n$3\r\nSET")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for seed in (folder, tmp_path):
        with rillet.testing.Server(seed=seed) as server:
            expect_seed(server)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_of_lines_is_a_seed(tmp_path):
    path = tmp_path / "seed.txt"
    path.write_text("# the data\n\nSELECT 3\nSET k \"a \\x41 b\"\nMULTI\nAPPEND k '!'\nEXEC\n")
    with rillet.testing.Server(seed=path, requirepass="secret") as server, server.client(db=3) as client:
        assert client.get("k") == b"a A b!"
        server.reset()
        assert client.get("k") == b"a A b!"


def test_a_file_of_requests_is_a_seed(tmp_path):
    path = tmp_path / "seed.resp"
    path.write_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\x00\r\n\xff\r\n" * 300)
    with rillet.testing.Server(seed=path) as server:
        expect_seed(server)
        assert server.client().get("k") == b"\x00\r\n\xff"


def test_a_dict_is_a_seed(process):
    seed = {
        "string": "v",
        b"number": 1.5,
        "list": ["a", b"b", 3],
        "set": {"a", "b"},
        "hash": {"f": "v", "n": 1},
        "orders": [{"id": "1"}, {"id": 2, "state": "new"}],
        "long": list(range(2500)),
    }
    with rillet.testing.Server(seed=seed, process=process) as server:
        with server.client(decode_responses=True) as client:
            assert client.get("string") == "v"
            assert client.get("number") == "1.5"
            assert client.lrange("list", 0, -1) == ["a", "b", "3"]
            assert client.smembers("set") == {"a", "b"}
            assert client.hgetall("hash") == {"f": "v", "n": "1"}
            assert [fields for _, fields in client.xrange("orders")] == [
                {"id": "1"},
                {"id": "2", "state": "new"},
            ]
            assert client.llen("long") == 2500
        before = contents(server)
        server.client().flushall()
        server.reset()
        assert contents(server) == before


def test_a_restart_does_not_bring_the_seed_back():
    with rillet.testing.Server(seed={"k": "v"}, appendonly=True) as server:
        with server.client() as client:
            client.delete("k")
            client.set("other", "v")
            server.restart()
            assert client.keys() == [b"other"]
        server.reset()
        assert server.client().keys() == [b"k"]


def test_a_server_that_is_started_again_has_its_seed():
    server = rillet.testing.Server(seed={"k": "v"})
    for _ in range(2):
        with server:
            expect_seed(server)


# Seeds that are none


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        ({"k": []}, "has no empty list"),
        ({"k": None}, "nothing is known for a NoneType"),
        ({"k": {"f": True}}, "True is no string and no number"),
        ({"k": [{"a": "b"}, "c"]}, "each entry of a stream is a dict"),
        ({"k": [{"a": "b"}, {}]}, "each entry of a stream is a dict"),
        ({1: "v"}, None),
    ],
    ids=str,
)
def test_a_bad_dict_says_which_key(seed, why):
    server = rillet.testing.Server(seed=seed)
    if why is None:
        with server:
            assert server.client().get("1") == b"v"
        return
    with pytest.raises(rillet.testing.StartError, match=f"The seed of 'k': .*{why}"):
        server.start()
    assert not server.running


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"SET k v\nLPUSH k w\n", "seed:2: LPUSH k w: WRONGTYPE"),
        (b'SET k "v\n', "seed:1: the quotes are unbalanced"),
        (b"NONSENSE\n", "seed:1: NONSENSE: .*unknown command"),
        (b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI", "after command 1 there is no whole command"),
        (b"*1\r\n$4\r\nPING\r\n*x\r\n", "after command 1 there is no whole command"),
        (b"REDIS0011nonsense", "cannot be loaded"),
        (b"REDIS9999", "cannot be loaded"),
    ],
    ids=str,
)
def test_a_bad_file_says_where(tmp_path, content, why):
    path = tmp_path / "seed"
    path.write_bytes(content)
    with pytest.raises(rillet.testing.StartError, match=why):
        rillet.testing.Server(seed=path).start()


def test_a_seed_that_is_missing_says_so(tmp_path):
    with pytest.raises(rillet.testing.StartError, match="cannot be read: No such file"):
        rillet.testing.Server(seed=tmp_path / "missing").start()
    with pytest.raises(rillet.testing.StartError, match="holds no append-only files"):
        rillet.testing.Server(seed=tmp_path).start()


def test_a_broken_append_only_folder_says_so(tmp_path):
    with rillet.testing.Server(dir=tmp_path, appendonly=True) as server:
        server.client().set("k", "v")
    (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").write_bytes(b"nonsense")
    with pytest.raises(rillet.testing.StartError, match="cannot be loaded"):
        rillet.testing.Server(seed=tmp_path).start()


def test_a_seed_that_cannot_be_saved_leaves_the_file(tmp_path):
    path = tmp_path / "seed.rdb"
    with rillet.testing.Server(seed={"k": "v"}) as server:
        server.save_seed(path)
        before = path.read_bytes()
        with pytest.raises(OSError, match="No such file"):
            server.save_seed(tmp_path / "missing" / "seed.rdb")
        assert path.read_bytes() == before
        assert [each.name for each in tmp_path.iterdir()] == ["seed.rdb"]


def test_a_dump_file_of_redis_is_a_seed(tmp_path):
    from support.servers import start_server

    with start_server("redis7", folder=tmp_path) as server, redis.Redis(port=server.port) as client:
        client.set("k", "v")
        client.save()
        path = Path(client.config_get("dir")["dir"]) / "dump.rdb"
        with rillet.testing.Server(seed=path) as other:
            expect_seed(other)
