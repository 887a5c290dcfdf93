"""Lines of sentinel.conf, as a start of `rillet sentinel.conf --sentinel` reads them."""

import pytest

from rillet.server.config.file import ConfigFileError, parse_arguments

MONITOR = "sentinel monitor m 127.0.0.1 7000 2\n"


def settings(tmp_path, text: str):
    file = tmp_path / "sentinel.conf"
    file.write_text(text)
    config = parse_arguments([str(file), "--sentinel"])
    assert config.sentinel is not None
    return config


def test_a_file_of_redis_sentinel_is_read(tmp_path):
    config = settings(
        tmp_path,
        "port 5000\n" + MONITOR + "sentinel down-after-milliseconds m 5\nsentinel failover-timeout m 6\n"
        "sentinel parallel-syncs m 3\nsentinel auth-user m u\nsentinel auth-pass m p\n"
        f"sentinel myid {'a' * 40}\nsentinel current-epoch 9\nsentinel config-epoch m 8\nsentinel leader-epoch m 7\n"
        "sentinel known-replica m 127.0.0.1 7001\nsentinel resolve-hostnames no\nsentinel deny-scripts-reconfig yes\n"
        "sentinel announce-ip 10.0.0.1\nsentinel down-if-refused yes\nsentinel\n",
    )
    master = config.sentinel.masters[b"m"]
    assert (config.port, master.host, master.port, master.quorum) == (5000, "127.0.0.1", 7000, 2)
    assert (master.down_after, master.failover_timeout, master.parallel_syncs) == (5, 6, 3)
    assert (master.auth_user, master.auth_pass) == (b"u", b"p")
    assert (config.sentinel.my_id, config.sentinel.epoch) == ("a" * 40, 9)
    assert (master.config_epoch, master.leader_epoch) == (8, 7)
    assert master.known_replicas == [("127.0.0.1", 7001)]
    assert config.sentinel.down_if_refused


def test_a_sentinel_has_its_own_port_and_keeps_no_data(tmp_path):
    config = settings(tmp_path, "")
    assert (config.port, config.save, config.protected_mode) == (26379, (), False)
    assert parse_arguments(
        ["--sentinel", "--port", "1", "--sentinel monitor m 127.0.0.1 1 1"]
    ).sentinel.masters


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("sentinel nope", "Unrecognized sentinel configuration statement."),
        ("sentinel monitor m 127.0.0.1 9", "Unrecognized sentinel configuration statement."),
        ("sentinel monitor m 127.0.0.1 99999 1", "Invalid port number."),
        ("sentinel monitor m 127.0.0.1 9 0", "Quorum must be 1 or greater."),
        ("sentinel monitor m no.host 9 1", "Can't resolve instance hostname."),
        (MONITOR + MONITOR, "Duplicate master name."),
        ("sentinel down-after-milliseconds m 5", "No such master with specified name."),
        (MONITOR + "sentinel down-after-milliseconds m 0", "negative or zero time parameter."),
        (MONITOR + "sentinel down-after-milliseconds m x", "negative or zero time parameter."),
        ("sentinel myid xx", "Malformed Sentinel id in myid option."),
        ("sentinel current-epoch x", "Invalid number in a sentinel line"),
        (MONITOR + "sentinel notification-script m /x", "A sentinel of Rillet runs no scripts"),
        (MONITOR + f"sentinel known-sentinel m 127.0.0.1 1 {'a' * 40}", "A sentinel of Rillet works alone"),
        ("sentinel resolve-hostnames yes", "A sentinel of Rillet monitors addresses, not names"),
    ],
)
def test_a_wrong_line_is_refused_with_its_reason(tmp_path, lines, why):
    with pytest.raises(ConfigFileError) as caught:
        settings(tmp_path, lines)
    assert str(caught.value).endswith(f"\n{why}\n")


def test_a_server_that_is_no_sentinel_refuses_its_lines(tmp_path):
    file = tmp_path / "redis.conf"
    file.write_text(MONITOR)
    with pytest.raises(ConfigFileError, match="sentinel directive while not in sentinel mode"):
        parse_arguments([str(file)])
