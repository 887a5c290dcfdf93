"""How much a test tries of what it could try: a part in `make test`, all where RILLET_ALL is set (CONTRIBUTING.md)."""

import os

ALL = bool(os.environ.get("RILLET_ALL"))


def examples(number: int) -> int:
    """Return how many of a number of examples of Hypothesis are tried: a third, but no fewer than 20."""
    return number if ALL else min(number, max(number // 3, 20))
