"""The append-only file as a delivery ledger: which consumer got which message when, how often, and which acknowledged it.

Importing it does not import PySpark. ``files`` finds and cuts the files, ``records`` turns them into rows (``schema``), ``spans`` replays rows, and
``format`` is Spark's ``redis-aof``. ``docs/ledger.md`` describes the design.
"""
