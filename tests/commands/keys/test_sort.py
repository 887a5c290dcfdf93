"""SORT: what it takes for a number, in each version; scripts/sorting.script has the rest."""

import pytest
from support.fake_server import make_client, reply, run

from rillet.commands.spec.versions import compat_with

NO_NUMBER = b"-ERR One or more scores can't be converted into double\r\n"


@pytest.mark.parametrize(
    ("word", "versions"),
    [
        ("", "7.0 8.6"), (" 0", "7.0"), ("0x0", "7.0 8.10"), ("0\0", "8.6"), ("-1e400", "8.6"), ("1e-400", "8.6"),
        ("-inf", "7.0 8.6 8.10"), ("0 ", ""), ("nan", ""), ("0x", ""),
    ],
)  # fmt: skip
def test_each_version_has_its_own_idea_of_a_number(word, versions):
    client = make_client()
    run(client, "RPUSH", "l", 1, word)
    for version in ("7.0", "8.6", "8.10"):
        client.server.compat = compat_with(version)
        expected = version in versions.split()
        answer = run(client, "SORT", "l")
        assert (answer == NO_NUMBER) is not expected, version
        if expected:
            assert reply(client, "SORT", "l") == [word.encode(), b"1"]
