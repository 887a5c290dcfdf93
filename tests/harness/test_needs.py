"""What a run of the tests does without other people's programs."""

import os
import sys
from pathlib import Path

import pytest
from support.tool import run_program

ROOT = Path(__file__).parents[2]
# Of Redis 8.10.2, of 7.0 likewise.
NEEDY = "tests/differential/test_states.py::test_scripts_on_a_stale_replica_are_queued_and_refused_as_by_the_real_server"
OTHER = "tests/commands/spec/test_specs.py::test_command_alone_is_served_with_and_without_a_subcommand"


@pytest.mark.parametrize("needs", ["", "all", "none"])
@pytest.mark.parametrize("workers", [["-p", "no:xdist"], ["-n", "1"]], ids=["alone", "with workers"])
def test_what_is_missing_is_left_out_with_a_line_or_fails_where_a_run_is_to_be_whole(
    tmp_path, needs, workers
):
    variables = os.environ | {"RILLET_PEERS": str(tmp_path), "RILLET_NEEDS": needs, "NO_COLOR": "1"}
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, NEEDY, OTHER)
    done = run_program(*words, seconds=600, cwd=ROOT, env=variables)
    missing = "Redis 8.10.2 is not built: make peers"
    left_out = [line for line in done.stdout.splitlines() if line.startswith("left out: ")]
    if needs == "all":
        assert (done.returncode, left_out, missing in done.stdout) == (1, [], True)
    elif needs == "none":
        assert (done.returncode, len(left_out)) == (0, 2)
        assert "left out: 1 tests: this run does without redis810" in left_out
    else:
        assert done.returncode == 0
        assert f"left out: 1 tests: {missing}" in left_out
