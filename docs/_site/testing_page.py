"""The page of ``rillet.testing``, from its docstrings."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import rillet.testing
import rillet.testing.unittest
from rillet import pytest_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = re.compile(r"^(Args|Raises|Returns|Yields|Attributes):$", re.MULTILINE)


def page() -> str:
    """Return the page: each name that the package exports, with its methods and properties; fixtures and mixins."""
    parts = ["# rillet.testing", described(rillet.testing)]
    for name in rillet.testing.__all__:
        thing = getattr(rillet.testing, name)
        parts += [f"## {name}", *signature(name, thing), described(thing)]
        for method, what in public(thing):
            parts += [f"### {name}.{method}", *signature(method, what), described(what)]
    parts += ["## pytest", described(pytest_plugin)]
    parts += ["## rillet.testing.unittest", described(rillet.testing.unittest)]
    for name, thing in vars(rillet.testing.unittest).items():
        if inspect.isclass(thing) and thing.__module__ == rillet.testing.unittest.__name__:
            parts += [f"### {name}", described(thing)]
    return "\n\n".join(parts) + "\n"


def public(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the documented methods and properties of a class in the order of their names."""
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return
    for name, what in inspect.getmembers(thing):
        inside = (
            getattr(inspect.unwrap(what.fget if isinstance(what, property) else what), "__module__", "")
            if callable(what) or isinstance(what, property)
            else ""
        )
        if not name.startswith("_") and str(inside).startswith("rillet.") and inspect.getdoc(what):
            yield name, what


def signature(name: str, thing: object) -> list[str]:
    """Return how something is called, unless it is a property."""
    if isinstance(thing, property):
        return []
    try:
        text = str(inspect.signature(thing))
    except ValueError:
        return []
    return [f"```text\n{name}{re.sub(r'^[(]self(, )?', '(', text)}\n```"]


def described(thing: object) -> str:
    """Return a docstring with its sections as lists."""
    text = inspect.getdoc(thing) or ""
    text = "\n".join(line if line.startswith(" ") else line.replace("``", "`") for line in text.splitlines())
    head, *rest = SECTION.split(text.replace("::\n", ":\n"))
    parts = [head.strip()]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        items = re.sub(r"^ {4}(\S)", r"- \1", body.strip("\n"), flags=re.MULTILINE)
        parts.append(f"**{title}**\n\n{items}" if items.startswith("- ") else f"**{title}** {body.strip()}")
    return "\n\n".join(part for part in parts if part)
