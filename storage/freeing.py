"""The interface by which lazyfree takes a large value apart, to free it in small steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable


class Freeable(ABC):
    """A value, or an object inside one, that may hold too many objects to free at once."""

    __slots__ = ()

    @abstractmethod
    def parts(self) -> Iterable[object]:
        """Return its lists, dicts, sets, deques and freeable objects, and any other part that may be large.

        The object must not be used afterwards. It breaks its reference cycles, because nothing else would free them.
        """

    def is_small(self) -> bool:
        """Return True if freeing it at once takes so little time that lazyfree need not take it apart."""
        return False

    def prepare_to_free(self) -> bool:
        """Do a step of the work that must precede ``parts``; return True if another step is needed before ``parts``."""
        return False
