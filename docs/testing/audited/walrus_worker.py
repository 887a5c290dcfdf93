"""walrus: the consumer group of its documentation; `most`: claims what is idle, and deletes what is done."""

import os
import sys

from walrus import Database

MOST = sys.argv[1:] == ["most"]
db = Database.from_url(os.environ["REDIS_URL"])
group = db.consumer_group("workers", ["jobs"], consumer=os.environ["CONSUMER"])
group.create()
while True:
    found = dict(group.read(count=10, block=1000) or []).get(b"jobs", [])
    if MOST:
        found = [*found, *group.jobs.autoclaim(os.environ["CONSUMER"], 60_000)[1]]
    for entry, fields in found:
        db.sadd("done", int(fields[b"n"]))
        group.jobs.ack(entry)
        if MOST:
            group.jobs.delete(entry)
