"""Regular expressions that are compiled at their first use, because a process uses few of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import AnyStr


def regex(text: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Callable[[], re.Pattern[AnyStr]]:
    """Return a function that compiles a regular expression at its first call, and returns it at every call.

    Compiling one takes 0.02 to 0.15 ms, and a start imports 40 of them. A call of the function takes 0.03 us.
    """
    return cache(lambda: re.compile(text, flags))
