"""The commands of Redis that Rillet leaves out, as docs/differences.md says; its own are marked in their records (``ours``)."""

import re
from typing import Final

# By their names in lower case: arrays, vector sets, and commands about Redis' own files, statistics and tests.
LEFT_OUT: Final = re.compile(
    r"(ar[a-z]+$|v(add|card|dim|emb|getattr|info|ismember|links|randmember|range|rem|setattr|sim)$"
    r"|(backup|hotkeys)(\||$)|trimslots$|pfdebug$|pfselftest$)"
)
