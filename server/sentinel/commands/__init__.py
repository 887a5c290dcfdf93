"""SENTINEL, and what a server in sentinel mode answers to INFO, ROLE and PUBLISH; see ``server/sentinel``."""
