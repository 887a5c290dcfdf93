"""A report from the ledger: what was delivered, how often, how fast it was acknowledged, and which consumers left entries behind.

``tables`` queries Spark SQL, ``figures`` draws, ``page`` and its template write the HTML,
``command`` is ``rillet pipeline report``.
"""
