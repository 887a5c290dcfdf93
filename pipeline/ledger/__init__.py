"""Read the append-only file as a delivery ledger: who got which message when and how often, and who acknowledged it.

Importing this package does not import PySpark. ``files`` finds and cuts the files, ``records`` turns them into rows
(``schema``), ``spans`` replays rows, and ``format`` is Spark's ``redis-aof``. ``docs/ledger.md`` describes the design.
"""
