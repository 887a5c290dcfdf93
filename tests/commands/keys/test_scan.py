from support.fake_server import reply


def fill(client, *names, value=b"v"):
    for name in names:
        client.db.put(name, value)
    client.server.events.clear()


def walk(client, *options):
    """The sizes of the pages and all keys."""
    cursor, sizes, found = b"0", [], []
    while True:
        cursor, page = reply(client, "SCAN", cursor, *options)
        sizes.append(len(page))
        found += page
        if cursor == b"0":
            return sizes, sorted(found)


def test_ten_keys_are_looked_at_unless_count_says_otherwise(client):
    names = [b"%02d" % number for number in range(25)]
    fill(client, *names)
    assert walk(client) == ([10, 10, 5], names)
    assert walk(client, "COUNT", 100) == ([25], names)
