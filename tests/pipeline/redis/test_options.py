"""pipeline/redis/options.py: what users write, and which error they get when it is wrong."""

import pickle
import re
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from rillet.pipeline.formats import READING
from rillet.pipeline.redis.options import (
    FLAG,
    Endpoint,
    Kind,
    OptionError,
    Options,
    number,
    option,
    part,
    records,
    words,
)
from rillet.pipeline.sink.options import SinkOptions


@dataclass(frozen=True, kw_only=True)
class Inner:
    words: str = option("words", Kind("text"), None, "a text")

    @classmethod
    def of(cls, given):
        return cls(**given.read(cls))


@dataclass(frozen=True, kw_only=True)
class Form:
    inner: Inner = part(Inner)  # noqa: RUF009 - a field
    size: int = option("fetchSize", number("rows", 1, 9), 5, "a number", kafka="maxSize")
    is_on: bool = option("isOn", FLAG, True, "a flag")
    mode: str = option("mode", words("range", "GROUP"), "range", "a word")
    name: str = option("name", Kind("name"), None, "a name", required=True)


def read(**given):
    options = Options({"name": "n"} | given)
    options.refuse_unknown(Form)
    return Form(**options.read(Form))


def test_a_dataclass_is_its_options():
    assert read() == Form(inner=Inner(words=None), size=5, is_on=True, mode="range", name="n")
    assert list(records(Form)) == ["words", "fetchSize", "isOn", "mode", "name"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    rows: int | None = option("rows", number(), None, "a number", kafka="offsets")
    bytes: int | None = option("bytes", number(), None, "a number", excludes=("rows", "mode=b"))
    pause: int | None = option("pause", number(), None, "a number", needs=("rows", "mode=b"))
    mode: str = option("mode", words("a", "b"), "a", "a word")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"bytes": "1", "rows": "1"}, "options 'bytes' and 'rows' exclude each other"),
        ({"bytes": "1", "offsets": "1"}, "options 'bytes' and 'rows' exclude each other"),
        ({"bytes": "1", "mode": "B"}, "options 'bytes' and mode=b exclude each other"),
        ({"bytes": "1", "mode": "A"}, None),
        ({"pause": "1", "mode": "a"}, "option 'pause' goes with 'rows' or mode=b"),
        ({"pause": "1", "offsets": "1"}, None),
        ({"pause": "1", "mode": "b"}, None),
        ({"pause": "", "bytes": "1"}, None),
    ],
)
def test_what_an_option_excludes_or_needs_is_declared_with_it(given, error):
    with pytest.raises(OptionError, match=re.escape(error)) if error else nullcontext():
        Options(given).read(Rules)


@pytest.mark.parametrize("form", [*READING.values(), SinkOptions])
def test_what_is_excluded_or_needed_is_an_option_of_the_same_dataclass(form):
    known = records(form)
    for each in known.values():
        for condition in (*each.excludes, *each.needs):
            name, _, value = condition.partition("=")
            known[name].parse(value or None)


def test_names_and_words_mean_the_same_in_any_case():
    assert read(FETCHSIZE="7", MODE="group", iSoN="No", WORDS="abc") == Form(
        inner=Inner(words="abc"), size=7, is_on=False, mode="GROUP", name="n"
    )
    assert read(MAXSIZE="7").size == 7
    assert read(fetchSize="").size == 5
    assert "FetchSize" in Options({"FETCHSIZE": "5"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fetchSize": "0"}, "'fetchSize' takes a number from 1 to 9, not 0"),
        ({"fetchSize": "abc"}, "'fetchSize' takes a whole number, not 'abc'"),
        ({"maxsize": "1", "fetchsize": "1"}, "'maxSize' and 'fetchSize' are the same"),
        ({"isOn": "abc"}, "'isOn' takes true or false, not 'abc'"),
        ({"mode": "abc"}, "'mode' takes range, GROUP; not 'abc'"),
        ({"name": ""}, "'name' is required"),
        ({"word": "abc"}, "unknown option 'word'; did you mean 'words'"),
        ({"maxSizes": "1"}, "unknown option 'maxsizes'; did you mean 'maxSize'"),
    ],
)
def test_a_wrong_option_is_named(given, message):
    with pytest.raises(OptionError, match=message):
        read(**given)


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
    secrets = {"passwordEnv", "passwordFile", "credentialsProvider"}
    assert set(given) | {"unixSocket"} | secrets | by_url == set(records(Endpoint))


@pytest.mark.parametrize(
    "given",
    [
        {"unixSocket": "/s", "host": "h"}, {"username": "u"}, {"tlsCaCert": "x"}, {"tls": "true", "tlsCert": "x"},
        {"port": "70000"},
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(given):
    with pytest.raises(OptionError):
        Endpoint.of(given)


def test_an_endpoint_travels_but_never_shows_its_password():
    endpoint = Endpoint(username="u", password="hidden-word", db=2)
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint
    assert "hidden-word" not in f"{endpoint} {endpoint!r}"
    assert str(endpoint) == "127.0.0.1:6379 db 2"
