"""A report from the ledger: what was delivered, how often, how fast it was acknowledged, and which consumers left entries behind.

``tables`` queries Spark SQL, ``page`` and its template write the HTML with the charts of the console,
``command`` is ``rillet pipeline report``.
"""
