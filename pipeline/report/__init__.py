"""Report on the ledger: deliveries, redeliveries, acknowledgement times, and consumers that left entries behind.

``tables`` queries Spark SQL, ``page`` and its template write the HTML with the charts of the console, and ``command``
is ``rillet pipeline report``.
"""
