"""The words that the house style keeps out (CONTRIBUTING.md), in names, comments, docstrings and pages.

Texts that go over the wire are left alone: the summaries in ``specs.py`` and the page that is generated from them, and
the words that differential scripts send.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "benchmarks",
    "commands",
    "console",
    "docs",
    "pipeline",
    "protocol",
    "server",
    "storage",
    "testing",
    "tests",
)
SUFFIXES = {".py", ".lua", ".md"}
LEFT_ALONE = {
    "docs/commands.md",  # the summaries of COMMAND DOCS
    "tests/fuzz/corpus",  # likewise
    "tests/test_words.py",
}
# A word of its own or a part of a name, not `file.tell()`.
FORBIDDEN = re.compile(
    r"(?<![A-Za-z])(?<!\.)(tells?|telling|told|nobody|whoever|those who|who goes|lest|anew|kin|meanwhile|bit by bit"
    r"|at one blow|for ever|of its own accord|bur(?:y|ies|ied)|graveyards?|settling|intakes?|nacks)(?![A-Za-z])",
    re.IGNORECASE,
)
# Each is needed: a file that has lost its word loses its line here.
ALLOWED = {
    ("CONTRIBUTING.md", "tell"),  # the rule itself
    ("CONTRIBUTING.md", "lest"),
    ("CONTRIBUTING.md", "anew"),
    ("CONTRIBUTING.md", "for ever"),
    ("CONTRIBUTING.md", "at one blow"),
    ("CONTRIBUTING.md", "kin"),
    ("CONTRIBUTING.md", "bit by bit"),
    ("pipeline/report/page.py", "nobody"),  # a cell of the report
    ("storage/rdb/reader.py", "meanwhile"),
    ("storage/rdb/writer.py", "meanwhile"),
    ("storage/streams/chunk.py", "those who"),
    ("storage/streams/cold_chunks.py", "meanwhile"),
}


def files() -> list[Path]:
    found = [path for path in ROOT.iterdir() if path.suffix in SUFFIXES and path.name != "CHANGELOG.md"]
    for folder in FOLDERS:
        found += (path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    names = {path: path.relative_to(ROOT).as_posix() for path in found}
    return sorted(
        path
        for path, name in names.items()
        if not any(name == left or name.startswith(f"{left}/") for left in LEFT_ALONE)
    )


def prose(path: Path) -> str:
    """The text of a file; of records of commands the names and the comments only."""
    text = path.read_text(encoding="utf-8")
    if path.name != "specs.py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type != tokenize.STRING)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_plain_words_are_used(path):
    name = path.relative_to(ROOT).as_posix()
    text = prose(path)
    found = [
        (text.count("\n", 0, match.start()) + 1, match[0])
        for match in FORBIDDEN.finditer(text)
        if (name, match[0].lower()) not in ALLOWED
    ]
    assert not found, (
        "write 'returns', 'sends', 'logs', 'propagates', 'the caller', 'no client', 'again' instead"
    )


def test_every_exception_is_needed():
    texts = {name: prose(ROOT / name) for name, _ in ALLOWED}
    assert {
        (name, word)
        for name, word in ALLOWED
        if word not in {match[0].lower() for match in FORBIDDEN.finditer(texts[name])}
    } == set()


def test_the_words_are_found():
    text = "It tells nobody. _told = begin_anew() # Lest\nfile.tell() foretold anewly stellar tellurium"
    assert [match[0] for match in FORBIDDEN.finditer(text)] == ["tells", "nobody", "told", "anew", "Lest"]
