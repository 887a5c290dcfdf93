"""Addresses as URLs, and how they go with the options that say the same."""

import pytest

from rillet.pipeline.redis.addresses import place_text
from rillet.pipeline.redis.options import Endpoint, OptionError


def endpoint(**given):
    return Endpoint.of({name: str(value) for name, value in given.items()})


def test_a_url_says_what_the_options_of_one_server_say():
    by_url = endpoint(url="rediss://app:s%40fe@redis.shop:7000/3", tlsCaCert="ca.pem")
    assert by_url == endpoint(
        host="redis.shop", port=7000, username="app", password="s@fe", db=3, tls="true", tlsCaCert="ca.pem"
    )
    assert endpoint(url="redis://127.0.0.1") == endpoint()
    assert endpoint(url="redis://[::1]:7000").host == "::1"
    assert place_text(("::1", 7000)) == "[::1]:7000"


def test_a_cluster_is_some_of_its_nodes():
    found = endpoint(url="redis+cluster://:secret@a:7000,b,[::1]:7002/0")
    assert found.kind == "cluster"
    assert found.places == (("a", 7000), ("b", 6379), ("::1", 7002))
    assert (found.username, found.password, found.tls) == (None, "secret", False)
    assert str(found) == "the cluster of a:7000, b:6379, [::1]:7002"
    assert endpoint(url="rediss+cluster://a").tls


def test_sentinels_name_a_master():
    found = endpoint(url="redis+sentinel://a,b:7000/my%20master/2", password="data", sentinelPassword="watch")
    assert (found.kind, found.service, found.db) == ("sentinel", "my master", 2)
    assert found.places == (("a", 26379), ("b", 7000))
    assert (found.password, found.sentinel_password) == ("data", "watch")
    assert str(found) == "my master by sentinels a:26379, b:7000 db 2"
    assert "data" not in repr(found)
    assert "watch" not in repr(found)


def test_a_failover_takes_longer_than_a_server_to_start_again():
    assert endpoint().retries == 5
    assert endpoint(url="redis+cluster://a").retries == endpoint(url="redis+sentinel://a/m").retries == 15
    assert endpoint(url="redis+cluster://a", retries=1).retries == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "http://a"}, "'url' takes redis://"),
        ({"url": "redis+cloud://a"}, "'url' takes redis://"),
        ({"url": "redis://"}, "'url' takes redis://"),
        ({"url": "redis://a,b"}, "'url' takes redis://"),
        ({"url": "redis://a/x"}, "'url' takes redis://"),
        ({"url": "redis://a:high"}, "'url' takes redis://"),
        ({"url": "redis://a/0/1"}, "'url' takes redis://"),
        ({"url": "redis+cluster://a/1"}, "'url' takes redis://"),
        ({"url": "redis+sentinel://a"}, "'url' takes redis://"),
        ({"url": "redis://a", "port": "1"}, "options 'port' and 'url' exclude each other"),
        ({"url": "redis://a", "tls": "true"}, "options 'tls' and 'url' exclude each other"),
        ({"url": "redis://:x@a", "password": "y"}, "options 'url' and 'password' exclude each other: the url has a password"),
        ({"url": "redis://a", "readFrom": "replica"}, "readFrom=replica needs"),
        ({"url": "redis://a", "sentinelPassword": "x"}, "go with a redis\\+sentinel url"),
        ({"url": "redis+cluster://a", "readFrom": "both"}, "'readFrom' takes master, replica"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        endpoint(**given)


def test_an_error_does_not_show_the_password():
    with pytest.raises(OptionError) as caught:
        endpoint(url="redis+cluster://:secret@a/b/c")
    assert "secret" not in str(caught.value)
