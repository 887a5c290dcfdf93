"""Walk everything that a server consists of, and compare two servers."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from rillet.server.server import Server

PLAIN: Final = (bool, int, float, str, bytes, type(None))
CONTAINERS: Final = (dict, list, tuple, set, frozenset)
# What does not change while a server runs, and the connection that asks.
CONSTANTS: Final = frozenset(
    "Argument Command Compat Config Connection FileOperations KeySpec Limits RequestParser Reset Selector State User".split()
)


def attributes(thing: object) -> list[str]:
    """Return the names of the attributes that an object has now, and of those that it makes when they are asked for."""
    names = set(getattr(thing, "__dict__", ()))
    for kind in type(thing).__mro__:
        names |= {name for name, value in vars(kind).items() if isinstance(value, cached_property)}
        slots = vars(kind).get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
    # `scripting_if_used` is None until `scripting` makes it.
    names |= {name.removesuffix("_if_used") for name in names}
    return sorted(
        name
        for name in names
        if not name.startswith("__") and not name.endswith("_if_used") and hasattr(thing, name)
    )


def is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith("rillet.") and not isinstance(thing, type)


def is_state(value: object) -> bool:
    """Whether an attribute holds more than another part of the server or a function."""
    return not is_ours(value) and not callable(value)


def objects(server: Server) -> Iterator[Any]:
    """Yield every object of our classes that a server reaches, in a stable order."""
    seen: set[int] = set()
    alive: list[object] = []
    todo: list[object] = [server]
    while todo:
        thing = todo.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        alive.append(thing)
        if is_ours(thing):
            if type(thing).__name__ in CONSTANTS:
                continue
            yield thing
            todo += [getattr(thing, name) for name in attributes(thing)]
        if isinstance(thing, dict):
            todo += [*thing, *thing.values()]
        elif isinstance(thing, CONTAINERS):
            todo += thing


def names(server: Server) -> set[str]:
    """Return ``Class.attribute`` of all state."""
    return {
        f"{type(thing).__name__}.{name}"
        for thing in objects(server)
        for name in attributes(thing)
        if is_state(getattr(thing, name))
    }


def values(server: Server, ignored: set[str]) -> dict[str, list[object]]:
    """Return the state by ``Class.attribute``: plain values as they are, others by what can be compared."""
    found: dict[str, list[object]] = {}
    for thing in objects(server):
        for name in attributes(thing):
            key = f"{type(thing).__name__}.{name}"
            value = getattr(thing, name)
            if is_state(value) and key not in ignored:
                found.setdefault(key, []).append(_comparable(value))
    return found


def _comparable(value: object) -> object:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, dict):
        return {str(_comparable(key)): _comparable(each) for key, each in value.items()}
    if hasattr(value, "__len__") and hasattr(value, "__iter__"):
        return [_comparable(each) for each in value]
    return type(value).__name__
