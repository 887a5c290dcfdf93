"""A page for each command, from its record and from what the scripts show of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands_list import TITLES
from examples import OURS, WITHOUT, shown

from rillet.commands.spec.command import REGISTRY
from rillet.commands.spec.usage import usage_line

if TYPE_CHECKING:
    from rillet.commands.spec.command import Argument, Command


def path_of(command: Command) -> str:
    """Return where the page of a command is, within docs/."""
    return f"reference/commands/{command.name.replace('|', '-')}.md"


def title_of(command: Command) -> str:
    """Return the name of a command as clients write it."""
    return command.name.upper().replace("|", " ")


def navigation() -> list[dict[str, list[dict[str, str]]]]:
    """Return the families, each with its commands."""
    shown()  # the commands are loaded
    return [
        {title: [{title_of(each): path_of(each)} for each in members(group)]}
        for group, title in TITLES.items()
    ]


def members(group: str) -> list[Command]:
    """Return the commands of a family by their names."""
    return sorted((each for each in REGISTRY.values() if each.group == group), key=lambda each: each.name)


def pages() -> dict[str, str]:
    """Return the text of every page by its path."""
    shown()
    return {path_of(command): page(command) for command in REGISTRY.values()}


def page(command: Command) -> str:
    """Return the page of one command."""
    parts = [f"# {title_of(command)}", command.summary]
    if command.deprecated_since:
        parts.append(f"Deprecated since {command.deprecated_since}; use {command.replaced_by} instead.")
    below = [each for each in REGISTRY.values() if each.container == command.name]
    if below:
        parts.append(
            "\n".join(
                f"- [{title_of(each)}]({path_of(each).rpartition('/')[2]}): {each.summary}" for each in below
            )
        )
    if not command.is_served:
        return "\n\n".join(parts) + "\n"
    parts += [f"```text\n{usage_line(command)}\n```", facts(command)]
    if command.arguments:
        rows = "\n".join(line for each in command.arguments for line in argument_rows(each, 0))
        parts.append(f"## Arguments\n\n| argument | type | |\n| --- | --- | --- |\n{rows}")
    if command.history:
        parts.append(
            "## Versions\n\n" + "\n".join(f"- {version}: {what}" for version, what in command.history)
        )
    return "\n\n".join([*parts, *seen(command)]) + "\n"


def facts(command: Command) -> str:
    """Return the table of what a command is."""
    rows = {
        "Since": command.since,
        "Complexity": command.complexity,
        "Words": f"{command.arity}" if command.arity > 0 else f"at least {-command.arity}",
        "Flags": ", ".join(sorted(command.flags)) or "none",
        "ACL categories": ", ".join(f"@{name}" for name in command.categories),
    }
    return "| | |\n| --- | --- |\n" + "\n".join(f"| {name} | {cell(text)} |" for name, text in rows.items())


def argument_rows(argument: Argument, depth: int) -> list[str]:
    """Return the row of an argument and those of its parts."""
    name = argument.token or argument.display or argument.name
    notes = [each.replace("_", " ") for each in argument.flags.split()]
    notes += [f"since {argument.since}"] if argument.since else []
    row = f"| {'&nbsp;' * 4 * depth}`{cell(name)}` | {argument.type} | {', '.join(notes)} |"
    return [row, *(line for each in argument.arguments for line in argument_rows(each, depth + 1))]


def seen(command: Command) -> list[str]:
    """Return the example and the errors of a command."""
    what, parts = shown()[command.name], []
    if what.example:
        parts.append(f"## Example\n\n```text\n{what.text}\n```")
    else:
        parts.append(f"There is no example: {OURS if command.ours else WITHOUT[command.name]}.")
    if what.errors:
        rows = "\n".join(
            f"| `{cell(text)}` | `{cell(line)}` |" for text, line in list(what.errors.items())[:20]
        )
        parts.append(f"## Errors\n\n| the reply | for instance to |\n| --- | --- |\n{rows}")
    return parts


def cell(text: str) -> str:
    """Make text fit into a cell of a table."""
    text = " ".join(text.split())
    return (text if len(text) <= 160 else f"{text[:159]}…").replace("|", "\\|").replace("`", "'")
