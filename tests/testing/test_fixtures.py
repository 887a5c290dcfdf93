"""The pytest fixtures as a user configures them; each run is a pytest of its own."""

import itertools

import pytest
from support.programs.pytest_run import run_tests
from support.servers import start_server


def test_markers_and_the_ini_option_configure_server_and_client(tmp_path):
    run_tests(
        tmp_path,
        """
        pytestmark = pytest.mark.rillet(stream_node_max_entries=7, client_name="module")

        def test_the_ini_option(rillet, rillet_session_server):
            assert rillet_session_server.client().config_get("hz")["hz"] == "99"
            assert rillet.config_get("hz") == {"hz": "99"}
            assert rillet.set("k", "v") and rillet.get("k") == "v"

        @pytest.mark.rillet(compat_version="7.2", appendonly=True, decode_responses=False)
        class TestMarked:
            def test_all_markers(self, rillet, rillet_server):
                assert rillet.info("server")["redis_version"].startswith("7.2")
                config = rillet.config_get("*")
                assert (config["appendonly"], config["stream-node-max-entries"], config["hz"]) == ("yes", "7", "99")
                assert rillet.get("k") is None
                assert rillet.client_getname() == "module"
                rillet.set("k", "v")
                assert rillet.get("k") == b"v"

            @pytest.mark.rillet(compat_version="8.2", client_name="closest")
            def test_the_closest_marker_wins(self, rillet):
                assert rillet.info("server")["redis_version"].startswith("8.2")
                assert rillet.client_getname() == "closest"

        servers = set()

        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.rillet(maxclients=100)
        def test_tests_of_one_configuration_share_a_server(n, rillet_server):
            servers.add(rillet_server)
            assert len(servers) == 1

        def test_a_test_without_it_has_another(rillet_server):
            assert rillet_server not in servers

        def test_a_server_that_a_test_has_shut_down(rillet):
            rillet.shutdown(nosave=True)

        def test_runs_again_for_the_next(rillet):
            assert rillet.ping()

        @pytest.mark.rillet(process=True)
        def test_in_a_process(rillet, rillet_server):
            assert rillet.ping() and rillet_server._process

        @pytest.mark.rillet(process=True)
        def test_a_process_that_a_test_has_shut_down(rillet):
            rillet.shutdown(nosave=True)

        @pytest.mark.rillet(process=True)
        def test_a_process_runs_again_for_the_next(rillet):
            assert rillet.ping()
        """,
        ini="rillet =\n    hz=99\n    decode_responses=yes\n",
    ).outcome(passed=11)


def test_a_rillet_server_of_the_users_own_gets_clients_as_the_markers_say(tmp_path):
    pytest.importorskip("anyio")
    run_tests(
        tmp_path,
        """
        import rillet.testing

        @pytest.fixture
        def rillet_server():
            with rillet.testing.Server(port=0, hz=77) as server:
                yield server

        @pytest.mark.rillet(decode_responses=True, client_name="marked")
        def test_in_step(rillet):
            assert rillet.config_get("hz") == {"hz": "77"}
            assert rillet.client_getname() == "marked"

        @pytest.mark.rillet(decode_responses=True, client_name="marked")
        @pytest.mark.anyio
        async def test_in_a_loop(rillet_async, anyio_backend):
            assert await rillet_async.config_get("hz") == {"hz": "77"}
            assert await rillet_async.client_getname() == "marked"

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        """,
    ).outcome(passed=2)


def test_a_client_may_have_one_connection_only(tmp_path):
    run_tests(
        tmp_path,
        """
        pytestmark = pytest.mark.rillet(single_connection_client=True, decode_responses=True)

        @pytest.mark.parametrize("first", [True, False])
        def test_in_step(first, rillet):
            assert rillet.client_getname() is None
            rillet.client_setname("mine")
            assert rillet.connection is not None

        @pytest.mark.parametrize("first", [True, False])
        @pytest.mark.asyncio
        async def test_in_a_loop(first, rillet_async):
            assert await rillet_async.client_id() == await rillet_async.client_id()
            assert rillet_async.connection is not None
        """,
    ).outcome(passed=4)


@pytest.mark.parametrize("process", ["yes", "no"])
def test_a_fixture_sends_its_server_one_message(tmp_path, process):
    run_tests(
        tmp_path,
        """
        from rillet.testing.control import Control

        sent = []
        run_all = Control.run_all

        def note(control, commands):
            sent.append([words[:3] for words in commands])
            return run_all(control, commands)

        Control.run_all = note

        @pytest.mark.parametrize("first", [True, False])
        def test_it(first, rillet):
            assert first or sent == [[(b"DEBUG", b"RESET", b"RECORD")]]
            sent.clear()
        """,
        ini=f"rillet =\n    process={process}\n",
    ).outcome(passed=2)


def test_a_bad_option_says_what_was_meant(tmp_path):
    run = run_tests(
        tmp_path,
        """
        @pytest.mark.rillet(compat_versoin="7.2")
        def test_a_typo(rillet): pass

        @pytest.mark.rillet("7.2")
        def test_without_a_name(rillet): pass

        @pytest.mark.rillet(appendonly="perhaps")
        def test_a_bad_value(rillet_server): pass
        """,
    )
    run.outcome(errors=3)
    assert "did you mean 'compat_version'?" in run.output
    assert "takes options by name: ('7.2',)" in run.output
    assert "argument must be 'yes' or 'no'" in run.output


@pytest.mark.parametrize(
    ("line", "why"), [("hz", "is not of the form name=value"), ("hzz=1", "did you mean")]
)
def test_a_bad_ini_option_is_named(tmp_path, line, why):
    run = run_tests(tmp_path, "def test_it(rillet): pass", ini=f"rillet =\n    {line}\n")
    run.outcome(errors=1)
    assert why in run.output


def test_the_factory_starts_servers_and_stops_all_of_them(tmp_path):
    run = run_tests(
        tmp_path,
        """
        import rillet.testing

        made = []

        def test_start(rillet_factory, rillet_server):
            one, two = rillet_factory(), rillet_factory(appendonly=True, process=True)
            assert len({one.port, two.port, rillet_server.port}) == 3
            assert two.client().config_get("*")["appendonly"] == "yes"
            assert one.client().config_get("hz") == {"hz": "99"}
            with pytest.raises(rillet.testing.StartError):
                rillet_factory(port=one.port)
            made.extend([one, two])
            two.client().shutdown(nosave=True)

        def test_they_are_gone():
            assert len(made) == 2 and not any(server.running for server in made)
        """,
        ini="rillet = hz=99\n",
    )
    run.outcome(passed=2)


def test_session_data_is_loaded_once_beside_servers_of_tests(tmp_path):
    run_tests(
        tmp_path,
        """
        @pytest.fixture(scope="session")
        def version(rillet_session_server):
            return rillet_session_server.client().info("server")["redis_version"]

        def test_it(version, rillet):
            assert version.startswith("8.10")

        @pytest.mark.rillet(compat_version="7.0")
        def test_other(version, rillet):
            assert version.startswith("8.10") and rillet.info("server")["redis_version"].startswith("7.0")
        """,
    ).outcome(passed=2)


WIDE = """
@pytest.fixture(scope="session")
def loaded(rillet_session_server):
    client = rillet_session_server.client()
    assert client.dbsize() == 0
    client.set("session", 1)
    return rillet_session_server

@pytest.fixture(scope="module")
def module(helper):
    client = helper.client()
    assert client.keys() in ([], [b"session"])
    client.set("module", 1)
    return helper.snapshot()

@pytest.fixture(scope="session")
def helper(rillet_session_server):
    return rillet_session_server

def test_one_that_leaves_data(rillet):
    rillet.set("left", 1)

def test_one_with_session_data(loaded, rillet_session_server):
    assert rillet_session_server.client().get("left") is None

def test_another_with_module_data(module, rillet_session_server, rillet):
    assert rillet.dbsize() == 0
    rillet_session_server.restore(module)
    assert rillet.get("module") and not rillet.get("left")
"""


@pytest.mark.parametrize(
    ("order", "words"), [*((order, []) for order in itertools.permutations("123")), ("123", ["-n", "2"])]
)
def test_fixtures_of_a_wider_scope_begin_clean_whatever_ran_before(tmp_path, order, words):
    fixtures, *tests = WIDE.split("def test_")
    code = fixtures + "".join(f"def test_{tests[int(each) - 1]}" for each in order)
    run_tests(tmp_path, code, *words).outcome(passed=3)


WIDE_NAMESAKE = """
@pytest.fixture(scope="module")
def rillet(rillet_session_server):
    client = rillet_session_server.client()
    assert client.dbsize() == 0
    return client

def test_one_that_leaves_data(rillet_server):
    rillet_server.client().set("left", 1)

def test_one_that_begins_clean(rillet):
    rillet.ping()
"""


def test_a_wider_fixture_of_the_users_that_is_named_as_ours_begins_clean(tmp_path):
    run_tests(tmp_path, WIDE_NAMESAKE).outcome(passed=2)


ASYNC = """
{mark}
async def test_it(rillet_async):
    assert await rillet_async.dbsize() == 0
    await rillet_async.set("k", "v")
    assert await rillet_async.get("k") == "v"

{mark}
async def test_again(rillet_async, rillet_server):
    assert await rillet_async.dbsize() == 0
"""


WITHOUT_ASYNCIO = [
    "-p",
    "no:asyncio",
    "-W",
    "ignore::pytest.PytestConfigWarning",
]  # its ini option is unknown


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("@pytest.mark.asyncio", []),
        ("@pytest.mark.asyncio(loop_scope='session')", []),
        ("@pytest.mark.asyncio", ["-o", "asyncio_default_test_loop_scope=module"]),
        ("@pytest.mark.asyncio", ["-o", "asyncio_default_fixture_loop_scope=session"]),
        ("", ["-o", "asyncio_mode=auto"]),
        ("@pytest.mark.anyio", ["-k", "asyncio"]),  # beside pytest-asyncio; redis-py does not know trio
        ("@pytest.mark.anyio", ["-k", "asyncio", *WITHOUT_ASYNCIO]),
    ],
)
def test_the_async_fixture_runs_in_the_loop_of_its_test(tmp_path, mark, words):
    if "anyio" in mark:
        pytest.importorskip("anyio")
    ini = "rillet = decode_responses=true\n"
    run_tests(tmp_path, ASYNC.format(mark=mark), *words, ini=ini).outcome(passed=2)


def test_the_async_fixture_says_that_redis_py_does_not_know_trio(tmp_path):
    pytest.importorskip("anyio")
    code = """
    @pytest.fixture
    def anyio_backend(): return "trio", {}

    def test_it(anyio_backend, rillet_async): pass
    """
    run = run_tests(tmp_path, code)
    run.outcome(errors=1)
    assert "redis.asyncio does not run in trio" in run.output


def test_the_async_fixture_says_what_is_missing(tmp_path):
    code = "def test_it(rillet_async): pass"
    run = run_tests(tmp_path, code, *WITHOUT_ASYNCIO)
    run.outcome(errors=1)
    assert "rillet_async needs a plugin that runs async tests: pip install pytest-asyncio" in run.output


def test_each_worker_of_xdist_has_servers_of_its_own(tmp_path):
    code = """
    import os, pathlib

    @pytest.mark.parametrize("n", range(6))
    def test_it(n, rillet, rillet_server, testrun_uid):
        assert rillet.incr("k") == 1
        pathlib.Path(f"{os.environ['PYTEST_XDIST_WORKER']}-{rillet_server.port}").touch()
    """
    run = run_tests(tmp_path, code, "-n", "2")
    assert "6 passed" in run.output
    seen = [path.name for path in tmp_path.glob("gw*-*")]
    assert sorted(name.partition("-")[0] for name in seen) == ["gw0", "gw1"]


# --rillet-url

REMOTE = """
import rillet.testing

@pytest.mark.parametrize("n", [1, 2])
def test_the_data_is_removed_between_tests(n, rillet, rillet_server):
    assert rillet.dbsize() == 0
    rillet.set("k", "v")
    assert rillet_server.client().get("k") == b"v"
    with rillet_server.client(db=3) as other:
        assert other.incr("k") == 1
    assert "rillet" not in rillet.info("server")["executable"]

@pytest.mark.rillet(decode_responses=True)
def test_options_of_the_client(rillet):
    rillet.set("k", "v")
    assert rillet.get("k") == "v"

@pytest.mark.asyncio
async def test_async(rillet_async):
    assert await rillet_async.dbsize() == 0

def test_the_clock(rillet_server):
    rillet_server.clock.advance(hours=1)
    assert False

@pytest.mark.rillet(appendonly=True)
def test_a_directive(rillet): assert False

def test_a_factory(rillet_factory): assert False

def test_a_lost_reply(rillet, rillet_server):
    import redis
    with rillet_server.fault(command="SET", close="after", expect_hits=True), pytest.raises(redis.ConnectionError):
        rillet.set("k", "v")
    assert rillet.get("k") == b"v"
    rillet_server.fault(command="SET", error="OOM").start()  # which the reset before the next test ends

@rillet.testing.every_fault("XACK")
def test_every_fault(rillet, rillet_server):
    rillet.xgroup_create("s", "g", mkstream=True)
    rillet.xadd("s", {"a": 1}, id="1-1")
    rillet.xreadgroup("g", "a", {"s": ">"})
    assert rillet_server.age("s", "g", hours=1) == 1
    try:
        rillet.xack("s", "g", "1-1")
    except Exception:
        rillet.xack("s", "g", "1-1")
    assert rillet_server.stream("s").group("g").pending == []

def test_a_name_that_no_server_has(rillet_server):
    with pytest.raises(AttributeError):
        rillet_server.clokc
"""


def test_the_same_tests_run_on_a_real_server(tmp_path):
    with start_server("redis7") as server:
        url = f"redis://127.0.0.1:{server.port}"
        run = run_tests(tmp_path, REMOTE, "--rillet-url", url, ini="rillet = hz=50\n")
        run.outcome(passed=7, skipped=3)
        assert "server.clock needs Rillet, and --rillet-url names a server that runs" in run.output
        assert "needs a Rillet with appendonly" in run.output
        assert "starts Rillet servers of its own" in run.output
        with server.wire() as wire:
            assert wire.call("DBSIZE").plain() == 0
            wire.call("SET", "precious", "1")
        run = run_tests(tmp_path, REMOTE, "--rillet-url", url)
        assert run.status == 4
        assert "it holds data, and all of it would be removed" in run.output
        with server.wire() as wire:
            assert wire.call("GET", "precious").plain() == b"1"
        run = run_tests(
            tmp_path, REMOTE, "--rillet-url", f"{url}/5", "-k", "lost_reply or every_fault or clock"
        )
        run.outcome(passed=2, skipped=1, deselected=7)
        with server.wire() as wire:
            assert wire.call("GET", "precious").plain() == b"1"
        run = run_tests(tmp_path, REMOTE, "--rillet-url", url, "-n", "2")
        assert run.status == 4
        assert "would share one server" in run.output
        run = run_tests(tmp_path, REMOTE, "--rillet-url", url, "--rillet-flush", "-k", "lost_reply")
        run.outcome(passed=1, deselected=9)
        with server.wire() as wire:
            assert wire.call("DBSIZE").plain() == 0


@pytest.mark.parametrize(
    ("url", "why"), [("redis://127.0.0.1:1", "refused"), ("nonsense", "begins with redis://")]
)
def test_a_url_that_leads_nowhere_ends_the_run(tmp_path, url, why):
    run = run_tests(tmp_path, REMOTE, "--rillet-url", url)
    assert run.status == 4
    assert why in run.output
