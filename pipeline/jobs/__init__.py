"""What people run: ingest and ledger (to Parquet and lakes), compact, replay, deadletter; one module a verb."""
