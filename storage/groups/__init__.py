"""Consumer groups: deliveries, the pending entries list, and the order of idle times."""
