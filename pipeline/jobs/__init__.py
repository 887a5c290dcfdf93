"""What people run: ingest and ledger (to Parquet and lakes), replay, deadletter; one module a verb."""
