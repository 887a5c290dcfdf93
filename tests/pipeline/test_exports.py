"""What `rillet.pipeline` exports stays importable, wherever the modules are."""

import subprocess
import sys

import pytest

import rillet.pipeline


def test_every_exported_name_is_importable():
    assert all(getattr(rillet.pipeline, name).__name__ == name for name in rillet.pipeline.__all__)


def test_a_name_that_is_not_exported_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = rillet.pipeline.Nothing


def test_processes_that_plan_a_query_import_no_pandas():
    """The first array that PyArrow makes of Python objects imports it, in a quarter of a second."""
    program = "import sys, rillet.pipeline.formats, rillet.pipeline.ledger.format; sys.exit('pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
