"""What is not installed is named at the start, with the extra that brings it."""

from pathlib import Path

import pytest

from rillet.pipeline import extras
from rillet.pipeline.cli.main import main


@pytest.fixture
def without(monkeypatch):
    """A function after which a package is not installed."""
    find = extras.find_spec

    def remove(name):
        monkeypatch.setattr(extras, "find_spec", lambda asked: None if asked == name else find(asked))

    return remove


@pytest.mark.parametrize(("form", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_job_says_at_once_that_its_format_needs_an_extra(without, tmp_path, capsys, form, package):
    without(package)
    words = ["ingest", "--streams", "s", "--out", str(tmp_path / "out"), "--format", form, "--port", "1"]
    assert main(words) == 1
    needed = f"rillet pipeline ingest: [REDIS_STREAMS.MISSING_PACKAGE] --format {form} needs {package}: pip install 'rillet[lake]'\n"
    assert capsys.readouterr().err == needed
    assert not (tmp_path / "out").exists()


def test_every_package_of_an_extra_is_one_that_pyproject_names():
    text = (Path(extras.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for extra in set(extras.EXTRAS.values()):
        assert f"\n{extra} = [" in text
