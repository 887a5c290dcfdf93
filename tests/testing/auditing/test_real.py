"""`rillet audit --rillet-url`: the promises on a server that is there."""

import pytest
from support.auditing.mutations import SOURCE
from support.servers import start_servers

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.results import CannotRunError
from rillet.testing.auditing.running import Audit

KINDS = ("redis810", "redis7")
TUTORIAL = """\
import os, redis
r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
try:
    r.xgroup_create("jobs", "workers", "0", mkstream=True)
except redis.ResponseError:
    pass
while True:
    for _, entries in r.xreadgroup("workers", os.environ["CONSUMER"], {"jobs": ">"}, count=10, block=500) or []:
        for entry, fields in entries:
            r.sadd("done", int(fields["n"]))
            r.xack("jobs", "workers", entry)
"""

pytestmark = pytest.mark.xdist_group("audits on real servers")


@pytest.fixture(scope="module")
def servers():
    with start_servers(*KINDS) as started:
        yield started


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def real(servers, kind):
    return servers[kind]


def audit(zygote, real, source, names, *, timeout, database="/5", may_flush=False):
    url = f"redis://127.0.0.1:{real.port}{database}"
    plan = Plan(launch=zygote.launcher(source), timeout=timeout, real=url, may_flush=may_flush)
    return {each.name: each for each in Audit(plan).run(names)}


def test_a_correct_worker_keeps_what_can_be_tried_and_other_databases_stay(zygote, ahead, servers, real):
    def work(kind):
        with servers[kind].wire() as wire:
            wire.call("SET", "mine", "1")
        names = (
            "works crash long-job idle-claim deleted failover restart cut flushed consumers scripts".split()
        )
        return audit(zygote, servers[kind], SOURCE, names, timeout=30)

    found = ahead(work)
    with real.wire() as wire:
        assert {name: each.what for name, each in found.items() if each.result != "kept"} == {
            "consumers": "a consumer gets no older on this server, which has no clock to move",
            "scripts": "SCRIPT FLUSH would remove the scripts of all who use the server: --rillet-flush allows it",
        }
        assert wire.call("GET", "mine").plain() == b"1"
        assert wire.call("INFO", "keyspace").plain().count(b"keys=") == 1  # and of the audit nothing is left
        wire.call("FLUSHALL")


def test_what_a_worker_breaks_is_named(zygote, ahead, servers, real):
    def work(kind):
        names = ["works", "crash", "idle-claim", "cut"]
        return audit(zygote, servers[kind], TUTORIAL, names, timeout=3, database="")

    found = ahead(work)
    assert {name: each.result for name, each in found.items()} == {
        "works": "kept", "crash": "broken", "idle-claim": "broken", "cut": "kept",
    }  # fmt: skip
    assert found["crash"].evidence


def test_a_worker_in_another_database_than_that_of_the_audit_is_not_audited(zygote, real):
    elsewhere = TUTORIAL.replace('os.environ["REDIS_URL"]', 'os.environ["REDIS_URL"].replace("/5", "/0")')
    with pytest.raises(CannotRunError, match="it reads in database 0 and not in 5"):
        audit(zygote, real, elsewhere, ["works"], timeout=1)
    with real.wire() as wire:
        wire.call("FLUSHALL")


def test_a_server_that_holds_data_is_left_alone(zygote, real):
    with real.wire() as wire:
        wire.call("SET", "mine", "1")
        with pytest.raises(CannotRunError, match="holds data"):
            audit(zygote, real, TUTORIAL, ["works"], timeout=1, database="")
        assert wire.call("GET", "mine").plain() == b"1"
        audit(zygote, real, TUTORIAL, ["works"], timeout=1, database="", may_flush=True)
        assert wire.call("DBSIZE").plain() == 0
