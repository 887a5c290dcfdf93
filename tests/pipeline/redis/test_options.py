"""pipeline/redis/options.py: what users write, and which error they get when it is wrong."""

from __future__ import annotations

import pickle

import pytest

from rillet.pipeline.redis import credentials
from rillet.pipeline.redis.options import ENDPOINT_NAMES, Endpoint, OptionError, Options


def test_names_mean_the_same_in_any_case():
    options = Options({"FETCHSIZE": "5", "parsemode": "failfast"})
    assert options.number("fetchSize") == 5
    assert options.choice("parseMode", ["PERMISSIVE", "FAILFAST"], "PERMISSIVE") == "FAILFAST"
    assert "FetchSize" in options
    assert options.text("streams") is None


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda options: options.number("n", least=1), "'n' takes a number from 1 to"),
        (lambda options: options.number("word"), "'word' takes a whole number, not 'abc'"),
        (lambda options: options.flag("word"), "'word' takes true or false"),
        (
            lambda options: options.choice("word", ["range", "group"], "range"),
            "'word' takes range, group; not 'abc'",
        ),
        (lambda options: options.required("stream"), "'stream' is required"),
        (
            lambda options: options.refuse_unknown(["n", "words"]),
            "unknown option 'word'; did you mean 'words'",
        ),
    ],
)
def test_a_wrong_option_is_named(read, message):
    with pytest.raises(OptionError, match=message):
        read(Options({"n": "0", "word": "abc"}))


def test_an_endpoint_reads_every_option():
    given = {
        "host": "redis.example", "port": "7000", "username": "u", "password": "p", "db": "3",
        "tls": "true", "tlsCaCert": "ca", "tlsCert": "c", "tlsKey": "k", "tlsSkipVerify": "yes",
        "timeoutMs": "10", "retries": "0", "retryIntervalMs": "0",
    }  # fmt: skip
    expected = Endpoint("redis.example", 7000, "u", "p", 3, None, True, "ca", "c", "k", True, 10, 0, 0)
    assert Endpoint.of(given) == expected
    assert Endpoint.of({"unixSocket": "/s"}) == Endpoint(unix_socket="/s")
    by_url = {"url", "readFrom", "sentinelUsername", "sentinelPassword"}
    assert set(given) | {"unixSocket", *credentials.NAMES} | by_url == set(ENDPOINT_NAMES)


@pytest.mark.parametrize(
    "given",
    [
        {"unixSocket": "/s", "host": "h"},
        {"username": "u"},
        {"tlsCaCert": "x"},
        {"tls": "true", "tlsCert": "x"},
        {"port": "70000"},
    ],
)
def test_options_that_contradict_each_other_are_refused(given):
    with pytest.raises(OptionError):
        Endpoint.of(given)


def test_an_endpoint_travels_but_never_shows_its_password():
    endpoint = Endpoint(username="u", password="hidden-word", db=2)
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint
    assert "hidden-word" not in f"{endpoint} {endpoint!r}"
    assert str(endpoint) == "127.0.0.1:6379 db 2"
