"""The verbs that move data: ingest and ledger (to Parquet and lakes), replay, deadletter; one module each."""
