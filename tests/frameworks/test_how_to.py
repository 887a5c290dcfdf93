"""Every example of docs/how-to/frameworks.md runs, with the frameworks in an environment of their own."""

import os
import re
from pathlib import Path

import pytest
from support.programs.frameworks import python_environment
from support.tool import run_program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "frameworks.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^```python\n# (test_\w+)\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_example_of_the_page_is_one_of_these():
    assert PAGE.count("```python") == len(EXAMPLES) == 5


@pytest.mark.frameworks
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name, tmp_path):
    (tmp_path / f"{name}.py").write_text(EXAMPLES[name], encoding="utf-8")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "rillet").symlink_to(ROOT)  # the package is the root of the repository
    done = run_program(
        python_environment("how_to") / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "-p", "rillet.pytest_plugin", f"{name}.py",
        seconds=300, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
