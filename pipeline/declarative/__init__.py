"""A Spark Declarative Pipelines project: streams and the ledger through bronze and silver to gold.

``rillet pipeline declarative DIR`` copies it, fills in where Redis is, and runs it; what is in ``DIR`` is then its owner's
to change. ``bronze``, ``silver`` and ``gold`` are definition files: Spark runs them; no module imports them.
"""
