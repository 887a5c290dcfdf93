"""Random elements that may repeat: as many as asked for, up to a limit."""

import pytest
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.runtime import repetitions

CHOICES = ("SRANDMEMBER", "ZRANDMEMBER", "HRANDFIELD")
TOO_MANY = b"-ERR value is out of range\r\n"
WITH = {"ZRANDMEMBER": "WITHSCORES", "HRANDFIELD": "WITHVALUES"}


def with_elements(number, name=b"%d"):
    client = make_client(server=FakeServer())
    for at in range(number):
        run(client, "SADD", "SRANDMEMBER", name % at)
        run(client, "ZADD", "ZRANDMEMBER", at, name % at)
        run(client, "HSET", "HRANDFIELD", name % at, at)
    return client


@pytest.mark.parametrize("word", CHOICES)
@pytest.mark.parametrize("count", [1, 7, 40, 1000])
@pytest.mark.parametrize("resp", [2, 3])
def test_a_negative_count_gives_so_many_of_the_elements(word, count, resp):
    client = with_elements(20)
    client.resp = resp
    elements = {b"%d" % at for at in range(20)}
    found = reply(client, word, word, -count)
    assert len(found) == count
    assert elements.issuperset(found)
    if count == 1000:
        assert set(found) == elements
    if word in WITH:
        pairs = reply(client, word, word, -count, WITH[word])
        if resp == 2:
            pairs = list(zip(pairs[::2], pairs[1::2], strict=True))
        assert len(pairs) == count
        assert all(int(left) == int(right) for left, right in pairs)


@pytest.mark.parametrize("word", CHOICES)
@pytest.mark.parametrize("count", [repetitions.MOST + 1, (1 << 62) - 1, (1 << 63) - 1])
def test_more_than_the_limit_is_refused_before_any_is_chosen(word, count):
    assert run(with_elements(3), word, word, -count) == TOO_MANY


@pytest.mark.parametrize("word", CHOICES)
def test_a_reply_larger_than_the_limit_is_refused_before_it_is_made(word):
    client = with_elements(2, b"%d" + bytes(1000))
    assert run(client, word, word, -1_000_000) == TOO_MANY
    assert len(reply(client, word, word, -1000)) == 1000
