"""redis-streams: its README's consumer, and its monitor where the README has one (`most`)."""

import os
import sys

import redis
from redis_streams.consumer import Consumer
from redis_streams.monitor import Monitor

MOST = sys.argv[1:] == ["most"]
server = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
options = {"redis_conn": server, "stream": "jobs", "consumer_group": "workers", "batch_size": 10}
# The README waits 30 seconds until a batch is full.
consumer = Consumer(consumer_id=os.environ["CONSUMER"], max_wait_time_ms=100, poll_time_ms=50, **options)
monitor = Monitor(**options)

while True:
    if MOST:
        monitor.collect_monitoring_data(auto_cleanup=True)
    for item in consumer.get_items():
        server.sadd("done", int(item.content["n"]))
        consumer.remove_item_from_consumer_group(item_id=item.msgid)
