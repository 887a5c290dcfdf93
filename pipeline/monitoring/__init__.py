"""Report how far queries are behind: log lines and Prometheus metrics from progress reports."""
