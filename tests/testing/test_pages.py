"""Every ```python block of docs/testing/ runs: as a program of its own, or by pytest if it is named `# test_….py`.

A page shows in ```text what must not run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "testing"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOR_PYTEST = re.compile(r"# (test_\w+\.py)\n")


def blocks() -> list:
    """Return the blocks of all pages as parameters, named by page and line."""
    found = []
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            # The simulator needs Python 3.12; make test-simulation runs the page there.
            old = page.name == "simulation.md" and sys.version_info < (3, 12)
            marks = pytest.mark.skipif(old, reason="the simulator needs Python 3.12: make test-simulation")
            found.append(pytest.param(block[1], id=f"{page.name}:{line}", marks=marks))
    return found


def run_block(code: str, folder: Path) -> None:
    """Run one block in ``folder`` in an interpreter of its own; a failure shows what it printed."""
    named = FOR_PYTEST.match(code)
    path = folder / (named[1] if named else "program.py")
    path.write_text(code, encoding="utf-8")
    # Without a rootdir of its own pytest would look for a configuration above the folder; pytest-asyncio warns if its
    # scope is not set.
    by_pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    by_pytest += ["-o", "asyncio_default_fixture_loop_scope=function"]
    words = [sys.executable, "-W", "error", *(by_pytest if named else []), path.name]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("code", blocks())
def test_a_block_of_the_pages_runs(code, tmp_path):
    run_block(code, tmp_path)


@pytest.mark.parametrize("code", ["assert False\n", "# test_it.py\ndef test_it(rillet):\n    assert False\n"])
def test_a_block_that_fails_is_seen(code, tmp_path):
    with pytest.raises(AssertionError, match="assert False"):
        run_block(code, tmp_path)


def test_a_block_for_pytest_has_tests(tmp_path):
    with pytest.raises(AssertionError, match="no tests ran"):
        run_block("# test_it.py\nassert True\n", tmp_path)


def test_every_page_stands_in_the_index():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name
