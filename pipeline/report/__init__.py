"""A report from the ledger: what was delivered, how often, how fast it was acknowledged, and which consumers left entries behind.

``tables`` asks Spark SQL, ``figures`` draws, ``page`` writes the HTML,
``command`` is ``rillet pipeline report``.
"""
