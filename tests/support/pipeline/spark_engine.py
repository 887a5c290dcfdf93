"""Spark's side of a Python stream source without Spark: the same calls in the same order, offsets through JSON."""

import json
import pickle

opened = []


def close_opened():
    """Stop the readers of all engines; a fixture calls it after each test."""
    while opened:
        opened.pop().reader.stop()


class Engine:
    """Drives a stream reader; `offset` is what the checkpoint would hold."""

    def __init__(self, make_reader, offset=None):
        self.make_reader = make_reader
        self.reader = make_reader()
        self.offset = offset
        opened.append(self)

    def plan(self, limit=None):
        """Ask how far to go: (start, end) or None."""
        if self.offset is None:
            self.offset = through_json(self.reader.initialOffset())
        limit = limit or self.reader.getDefaultReadLimit()
        end = through_json(self.reader.latestOffset(through_json(self.offset), limit))
        return None if end == self.offset else (self.offset, end)

    def read(self, start, end):
        """What the tasks of a batch read, in the order of its partitions."""
        rows = []
        for partition in self.reader.partitions(start, end):
            task = pickle.loads(pickle.dumps(self.reader))
            for batch in task.read(pickle.loads(pickle.dumps(partition))):
                rows += batch.to_pylist()
        return rows

    def trigger(self, limit=None):
        """One micro-batch: its rows, or None where there is nothing new."""
        planned = self.plan(limit)
        if planned is None:
            return None
        rows = self.read(*planned)
        self.offset = planned[1]
        return rows

    def drain(self, limit=None):
        """Micro-batches until there is nothing new."""
        rows = []
        for _ in range(1000):
            batch = self.trigger(limit)
            if batch is None:
                return rows
            rows += batch
        raise AssertionError("no end")

    def restart(self):
        """Another driver goes on from the checkpoint."""
        self.reader.stop()
        self.reader = self.make_reader()


def through_json(tree):
    return json.loads(json.dumps(tree))
