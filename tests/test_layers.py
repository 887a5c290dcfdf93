"""The shape of the project: which folder may import which, and how long a file may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "protocol": {"protocol"},
    "storage": {"storage", "protocol"},
    "commands": {"commands", "storage", "protocol"},
    "server": {"server", "commands", "storage", "protocol", ""},
    "pipeline": {"pipeline", "storage", "protocol"},
}
FILES = [path for folder in ALLOWED for path in sorted((ROOT / folder).rglob("*.py"))]


def runtime_imports(path: Path) -> list[tuple[str, str]]:
    """(kind, module) of every import outside `if TYPE_CHECKING`; kind is "own" for modules of rillet."""
    found: list[tuple[str, str]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend(("other", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                package = path.relative_to(ROOT).parts[:-1]
                base = package[: len(package) - node.level + 1]
                words = [*base, *(node.module or "").split(".")]
                names = [words] if any(words) else [[alias.name] for alias in node.names]
                found.extend(("own", ".".join(word for word in words if word)) for words in names)
            else:
                found.append(("other", node.module or ""))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_flow_one_way(path):
    folder = path.relative_to(ROOT).parts[0]
    for kind, module in runtime_imports(path):
        top = module.split(".", maxsplit=1)[0]
        if kind == "own":
            assert top in ALLOWED[folder] or (folder == "server" and top not in ALLOWED), module
        if folder in {"protocol", "storage"}:
            assert top not in {"asyncio", "socket", "uvloop"}, module
        if folder in {"commands", "pipeline"}:
            assert top not in {"asyncio", "uvloop"}, module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_clock_asks_for_the_time(path):
    # The pipeline lives beside servers, not in one.
    if path.relative_to(ROOT).as_posix() == "server/clock.py" or path.is_relative_to(ROOT / "pipeline"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {
            "time.time",
            "time.time_ns",
            "datetime.now",
        }:
            pytest.fail(f"line {node.lineno}: {ast.unparse(node)}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_holds_one_idea(path):
    assert len(path.read_text().splitlines()) <= 550


def test_the_pipeline_is_imported_without_spark_or_a_server():
    program = (
        "import sys, rillet.pipeline, rillet.pipeline.cli.main, rillet.pipeline.redis.connection\n"
        "print(*[name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'rillet.server', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
