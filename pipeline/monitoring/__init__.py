"""How far queries are behind: progress reports as log lines and Prometheus metrics."""
