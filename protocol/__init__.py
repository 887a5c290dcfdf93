"""RESP without I/O: requests in, replies out."""
