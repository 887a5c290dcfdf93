"""Errors begin with a token that stays; documentation lists them all."""

from importlib import import_module
from pathlib import Path

import pytest

import rillet.pipeline
from rillet.pipeline.error_tokens import LabelledError
from rillet.pipeline.redis.connection import ServerError
from rillet.pipeline.source.losses import DataLossError

FOLDER = Path(rillet.pipeline.__file__).parent
PLACES = (
    "redis.connection redis.options source.values source.entry_batches source.sizes source.offsets source.losses sink.xadd_encoding sink.xadd_sending "
    "ledger.errors java folders extras"
)


def errors(base=LabelledError):
    for each in base.__subclasses__():
        yield each
        yield from errors(each)


@pytest.fixture(autouse=True)
def all_imported():
    for place in PLACES.split():
        import_module(f"rillet.pipeline.{place}")


def test_a_token_comes_before_the_words():
    error = DataLossError("3 entries are gone")
    assert str(error) == "[REDIS_STREAMS.DATA_LOSS] 3 entries are gone"
    assert error.words == "3 entries are gone"


def test_the_words_of_a_server_are_its_own():
    assert str(ServerError("WRONGTYPE Operation")) == "WRONGTYPE Operation"


def test_each_error_has_a_token_of_its_own_and_is_in_the_docs():
    page = (FOLDER.parent / "docs" / "spark.md").read_text(encoding="utf-8")
    ours = [
        each for each in errors() if each.__module__.startswith("rillet.pipeline") and each is not ServerError
    ]
    labels = {each.__name__: each.__dict__["label"] for each in ours if "label" in each.__dict__}
    assert not [each for each in ours if not hasattr(each, "label")]
    assert len(set(labels.values())) == len(labels)
    for label in labels.values():
        assert f"`{label}`" in page, label
