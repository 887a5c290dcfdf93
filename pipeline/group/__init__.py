"""Group mode: a query that reads as one consumer of a consumer group."""
