"""Sets: SADD, SINTER."""
