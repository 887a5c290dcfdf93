"""SENTINEL, and INFO, ROLE and PUBLISH of a server in sentinel mode; see ``server/sentinel``."""
