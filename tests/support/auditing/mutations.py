"""The worker of the documentation, broken in one place: what breaks which promise."""

from pathlib import Path

SOURCE = (Path(__file__).parents[3] / "docs" / "testing" / "workers" / "worker.py").read_text(
    encoding="utf-8"
)

# redis-py sends a command again by itself; a worker without that sees that a connection broke.
NO_RETRIES = (
    "decode_responses=True)",
    'decode_responses=True, retry=__import__("redis.retry").retry.Retry(__import__("redis.backoff").backoff.NoBackoff(), 0))',
)
ON_ERROR = "        except (redis.ConnectionError, redis.TimeoutError):\n            time.sleep(0.1)\n"
FINISH = "        finish(keys=[STREAM], args=[GROUP, entry])\n"
LOOP = "            for entry, fields in claim() or read():\n"
CLAIM = "    _, entries, _ = server.xautoclaim(STREAM, GROUP, ME, LEASE, count=10)\n"
START = "    signal.signal(signal.SIGTERM, lambda *_: stopping.set())\n"
NOGROUP = "                make_group()\n            else:"
OTHER = "                time.sleep(0.1)  # READONLY, LOADING …\n"
FAILED = "        except Exception as error:\n"
XPENDING_CLAIM = """\
    entries = []
    for each in server.xpending_range(STREAM, GROUP, "-", "+", 10, idle=LEASE):
{}
"""
AT_START = (
    START
    + """\
    try:
        {}
    except redis.ResponseError:
        pass
"""
)

# fmt: off
MUTATIONS = {
    "works": {
        "it never acknowledges": [(FINISH, "")],
        "it acknowledges in another group": [("args=[GROUP, entry]", 'args=["others", entry]')],
    },
    "backlog": {
        "its group begins at the end": [('"0", mkstream', '"$", mkstream')],
        "it trims what nobody has read": [(CLAIM, "    server.xtrim(STREAM, maxlen=20, approximate=False)\n" + CLAIM)],
    },
    "crash": {
        "it removes itself when it starts": [(START, AT_START.format("server.xgroup_delconsumer(STREAM, GROUP, ME)"))],
        "it acknowledges what it had when it starts": [
            (START, AT_START.format('server.xack(STREAM, GROUP, *[each["message_id"] for each in '
                'server.xpending_range(STREAM, GROUP, "-", "+", 10, consumername=ME)])')),
        ],
    },
    "crash-elsewhere": {
        "it reads again what it has itself": [
            (CLAIM, '    mine = server.xreadgroup(GROUP, ME, {STREAM: "0"}, count=10)[0][1]\n'
                "    for entry, fields in mine:\n        if not fields:  # deleted\n"
                "            server.xack(STREAM, GROUP, entry)\n    entries = [each for each in mine if each[1]]\n"),
        ],
        "it claims what it has itself": [
            (CLAIM, XPENDING_CLAIM.format('        if each["consumer"] == ME:\n'
                '            entries += server.xclaim(STREAM, GROUP, ME, LEASE, [each["message_id"]])')),
        ],
    },
    "delivery-lost": {
        "it begins as a new consumer after a broken connection": [
            NO_RETRIES, (ON_ERROR, ON_ERROR + "            server.xgroup_delconsumer(STREAM, GROUP, ME)\n"),
            (LOOP, "            unfinished.clear()\n" + LOOP),
            ("def handle(entry, fields):\n", "def handle(entry, fields):\n    unfinished.append(entry)\n"),
            ("            server.xgroup_delconsumer(STREAM, GROUP, ME)\n",
                "            if not unfinished:\n                forget_myself()\n"),
            ("if __name__", "def forget_myself():\n    try:\n        server.xgroup_delconsumer(STREAM, GROUP, ME)\n"
                "    except redis.RedisError:\n        pass\n\n\nunfinished = []\n\n\nif __name__"),
        ],
        "it claims only what others have, or what it knows": [
            NO_RETRIES,
            (CLAIM, XPENDING_CLAIM.format('        if each["consumer"] != ME or each["message_id"] in known:\n'
                '            entries += server.xclaim(STREAM, GROUP, ME, LEASE, [each["message_id"]])')),
            ("def handle(entry, fields):\n", "known = set()\n\n\ndef handle(entry, fields):\n    known.add(entry)\n"),
            (START, AT_START.format('known.update(each["message_id"] for each in '
                'server.xpending_range(STREAM, GROUP, "-", "+", 10, consumername=ME))')),
        ],
    },
    "ack-lost": {
        "it skips what it has worked already": [
            NO_RETRIES,
            ("def handle(entry, fields):\n",
                "done = set()\n\n\ndef handle(entry, fields):\n    if entry in done:\n        return\n"),
            (FINISH, "        done.add(entry)\n" + FINISH),
        ],
        "it stops when an acknowledgement fails": [
            NO_RETRIES,
            (FINISH, "        try:\n    " + FINISH +
                "        except redis.ConnectionError:\n            time.sleep(9999)\n"),
        ],
    },
    "works-before-ack": {
        "it acknowledges first": [
            (FINISH, ""), ("            work(fields)\n", "    " + FINISH + "            work(fields)\n"),
        ],
        "it acknowledges when it reads": [
            ("    with Heartbeat(entry):\n", "    server.xack(STREAM, GROUP, entry)\n    with Heartbeat(entry):\n"),
            ("            [pending] = server.xpending_range(STREAM, GROUP, entry, entry, 1)\n"
                '            if pending["times_delivered"] < MOST_DELIVERIES:\n'
                "                return  # it stays pending, and is claimed again later\n", ""),
        ],
    },
    "long-job": {
        "it gives no sign of life": [
            ("                server.xclaim(STREAM, GROUP, ME, 0, [self.entry], justid=True)\n",
                "                server.ping()\n"),
        ],
        "it claims at once": [("LEASE = 30_000", "LEASE = 0")],
    },
    "idle-claim": {
        "it claims only after a read": [
            (LOOP, "            found = read()\n            for entry, fields in found and found + claim():\n"),
        ],
        "it claims with every third message": [
            (LOOP, "            found = read()\n            count += len(found)\n"
                "            if count >= 3:\n                found, count = found + claim(), 0\n"
                "            for entry, fields in found:\n"),
            (START, START + "    count = 0\n"),
        ],
    },
    "poison": {
        "it waits for what it has": [
            (LOOP, "            for entry, fields in claim() or (time.sleep(0.02) or [] if mine() else read()):\n"),
            ("if __name__",
                "def mine():\n    return server.xpending_range(STREAM, GROUP, '-', '+', 1, consumername=ME)\n\n\nif __name__"),
        ],
        "it waits for what anybody has": [
            (LOOP, "            for entry, fields in claim() or (time.sleep(0.02) or [] if open_() else read()):\n"),
            ("if __name__", "def open_():\n    return server.xpending(STREAM, GROUP)['pending']\n\n\nif __name__"),
        ],
    },
    "poison-capped": {
        "it never gives up": [("MOST_DELIVERIES = 5", "MOST_DELIVERIES = 10**9")],
        "it dies of a bad message": [(FAILED, "        except ZeroDivisionError as error:\n")],
    },
    "deleted": {
        "it wants the content of what is pending": [
            (CLAIM,
                XPENDING_CLAIM.format('        [found] = server.xrange(STREAM, each["message_id"], each["message_id"])\n'
                "        entries += server.xclaim(STREAM, GROUP, ME, LEASE, [found[0]])")),
        ],
        "it passes over what has no content": [
            (CLAIM, XPENDING_CLAIM.format('        if server.xrange(STREAM, each["message_id"], each["message_id"]):\n'
                '            entries += server.xclaim(STREAM, GROUP, ME, LEASE, [each["message_id"]])')),
        ],
    },
    "failover": {
        "it ends at READONLY": [
            (OTHER, OTHER.replace("time.sleep(0.1)",
                'if str(error).startswith("READONLY") or "read only" in str(error): return')),
        ],
        "it hangs at READONLY": [
            (OTHER, OTHER.replace("time.sleep(0.1)", 'time.sleep(9999 if "read only" in str(error) else 0.1)')),
        ],
    },
    "restart": {
        "it ends when a connection is refused": [
            NO_RETRIES,
            (ON_ERROR, ON_ERROR.replace(":\n", " as error:\n            if 'refused' in str(error): return\n", 1)),
        ],
        "it hangs when a connection is refused": [
            NO_RETRIES,
            (ON_ERROR, ON_ERROR.replace(":\n", " as error:\n            if 'refused' in str(error): time.sleep(9999)\n",
                1)),
        ],
    },
    "cut": {
        "it ends when a connection breaks": [NO_RETRIES, (ON_ERROR, ON_ERROR.replace("time.sleep(0.1)", "return"))],
        "it hangs when a connection breaks": [
            NO_RETRIES, (ON_ERROR, ON_ERROR.replace("time.sleep(0.1)", "time.sleep(9999)")),
        ],
    },
    "flushed": {
        "it makes its group only at the start": [
            (START, START + "    make_group()\n"), (NOGROUP, NOGROUP.replace("make_group()", "time.sleep(0.1)")),
        ],
        "it ends without a group": [
            (START, START + "    make_group()\n"), (NOGROUP, NOGROUP.replace("make_group()", "return")),
        ],
    },
    "shutdown": {
        "it ignores SIGTERM": [(START, "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n")],
        "it removes itself with what it has": [
            ("if __name__", "def leave():\n    server.xgroup_delconsumer(STREAM, GROUP, ME)\n\n\nif __name__"),
            ("    main()\n", "    main()\n    leave()\n"),
        ],
    },
    "consumers": {
        "it forgets nobody": [("        forget_the_dead()\n", "        pass\n")],
        "it takes milliseconds for seconds": [("3_600_000", "3_600_000_000")],
    },
    "retention": {
        "it only acknowledges": [(" return redis.call('XDEL', KEYS[1], ARGV[2])", "")],
        "it deletes elsewhere": [("'XDEL', KEYS[1]", "'XDEL', KEYS[1]..':done'")],
    },
    "scripts": {
        "it loads its script only at the start": [
            (FINISH, "        server.evalsha(SHA, 1, STREAM, GROUP, entry)\n"),
            (START, START + "    global SHA\n    SHA = server.script_load(finish.script)\n"),
        ],
        "it ends without its script": [
            (FINISH, "        server.evalsha(SHA, 1, STREAM, GROUP, entry)\n"),
            (START, START + "    global SHA\n    SHA = server.script_load(finish.script)\n"),
            (OTHER, '                if "matching script" in str(error): return\n' + OTHER),
        ],
    },
    "fair": {
        "only one works at a time": [
            (LOOP, LOOP.replace("claim() or read()", "claim() or read() if leads() else []")),
            ("if __name__",
                "def leads():\n    server.set('leader', ME, nx=True, px=60_000)\n    if server.get('leader') == ME:\n"
                "        return server.pexpire('leader', 60_000)\n    time.sleep(0.05)\n\n\nif __name__"),
        ],
        "it takes all there is": [("count=10, block=2000", "count=10_000, block=2000")],
    },
}
# fmt: on
CASES = [(promise, how) for promise, kinds in MUTATIONS.items() for how in kinds]


def mutated(promise: str, how: str) -> str:
    source = SOURCE
    for old, new in MUTATIONS[promise][how]:
        assert old in source, f"{how}: {old}"
        source = source.replace(old, new)
    compile(source, "worker.py", "exec")
    return source
