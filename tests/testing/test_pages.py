"""Every ```python block of docs/testing/ runs: as a program of its own, or by pytest if it is named `# test_….py`.

A page shows in ```text what must not run.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.forks import run_python
from support.programs.pytest_run import WITHOUT
from support.servers import start_server

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
    done = run_pytest(folder, path.name) if named else run(folder, path.name)
    assert done.returncode == 0, done.stdout + done.stderr


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Without a rootdir of its own pytest would look for a configuration above the folder; pytest-asyncio warns if its
    # scope is not set.
    options = ["-q", "-p", "no:cacheprovider", *WITHOUT, "--rootdir", str(folder)]
    return run(folder, "-m", "pytest", *options, "-o", "asyncio_default_fixture_loop_scope=function", *words)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_python("-W", "error", *words, cwd=folder)


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


@pytest.mark.parametrize("kind", ["redis810", "redis7", "valkey"])
def test_the_suite_of_the_page_runs_on_a_real_server_too(tmp_path, kind):
    page = (PAGES / "daily-and-nightly.md").read_text(encoding="utf-8")
    (tmp_path / "test_billing.py").write_text(BLOCK.search(page)[1], encoding="utf-8")
    with start_server(kind) as server:
        done = run_pytest(
            tmp_path, "-rs", f"--rillet-url=redis://127.0.0.1:{server.port}/5", "--rillet-flush"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 1 skipped" in done.stdout
    assert "server.clock needs Rillet" in done.stdout


def test_every_page_stands_in_the_index():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name
