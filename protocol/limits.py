"""The limits of a request, in one place: Redis' own numbers, in bytes unless said otherwise."""

from __future__ import annotations

from typing import Final

MAX_BULK_LENGTH: Final = 512 * 1024 * 1024
"""`proto-max-bulk-len`: the longest argument."""

MAX_ARGUMENTS: Final = 2_147_483_647
"""The highest `*` count (redis 7.0.15 and valkey 9.1 agree; before 7.0 it was 1024 * 1024)."""

MAX_LINE: Final = 64 * 1024
"""An inline request, a `*` header and a `$` header must each end within this."""

MAX_QUERY_BUFFER: Final = 1024 * 1024 * 1024
"""`client-query-buffer-limit`: unparsed bytes held for one client."""

UNAUTHENTICATED_MAX_ARGUMENTS: Final = 10
"""The highest `*` count before AUTH."""

UNAUTHENTICATED_MAX_BULK_LENGTH: Final = 16_384
"""The longest argument before AUTH."""

UNAUTHENTICATED_MAX_QUERY_BUFFER: Final = 1024 * 1024
"""Unparsed bytes held for a client before AUTH."""
