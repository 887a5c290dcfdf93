"""The append-only file as a delivery ledger: who got which message when, how often, and who acknowledged it.

Importing it does not import PySpark. ``folder`` finds the files, ``split`` cuts them, ``parse`` and ``events`` turn
their records into rows (``schema``), ``replay`` gives those rows their meaning, ``source`` is Spark's ``redis-aof``.
"""
