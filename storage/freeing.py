"""What lazyfree knows of a value: its parts, so that a large one is freed in small steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Freeable(ABC):
    """A value, or an object inside one, that may hold too many objects to free at once."""

    __slots__ = ()

    @abstractmethod
    def parts(self) -> Iterable[object]:
        """Return its lists, dicts, sets, deques and freeable objects, and whatever else may be large.

        It is not used afterwards. Parts of a reference cycle are detached: no collector would free them.
        """

    def is_small(self) -> bool:
        """Return whether freeing it at once takes no noticeable time."""
        return False

    def prepare_to_free(self) -> bool:
        """Do a step of the work before it is taken apart; return False when nothing is left."""
        return False
