#!/bin/sh
# Runs the tests of the simulation: sh tests/simulation.sh [arguments of pytest]
#
# The simulator needs Python 3.12. Where $PYTHON is older they run on a newer one, if there is any on PATH or in pyenv's
# folder, in an environment of its own below .venvs/. If there is none, one line says what was left out.

cd "$(dirname "$0")/.." || exit 1
versions=${PYENV_ROOT:-$HOME/.pyenv}/versions
is_new() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }

if is_new "${PYTHON:-python3}" && [ -z "$ALWAYS" ]; then
    exit 0 # `make test` has run them
fi
for python in "$PYTHON" "$(command -v python3.12)" "$versions"/3.12.*/bin/python "$(command -v python3.13)" "$versions"/3.13.*/bin/python; do
    if [ -n "$python" ] && is_new "$python"; then
        folder=.venvs/simulation
        versions=tests/frameworks/environments/simulation.txt
        if ! cmp -s $versions $folder/installed.txt; then
            # arq allows no redis-py of today; it works with it.
            { "$python" -m venv $folder && $folder/bin/pip install --quiet --disable-pip-version-check --editable \
                '.[simulation]' hypothesis pytest-asyncio uvloop click pyjwt &&
                $folder/bin/pip install --quiet --disable-pip-version-check $(grep -v ^arq $versions) &&
                $folder/bin/pip install --quiet --disable-pip-version-check --no-deps $(grep ^arq $versions) &&
                cp $versions $folder/installed.txt; } || exit 1
        fi
        exec $folder/bin/pytest --rootdir . -m "" -o filterwarnings= -q -n 4 tests/testing/simulating/test_simulation.py \
            tests/testing/simulating/test_simulated_frameworks.py tests/testing/test_frameworks_and_faults.py tests/testing/test_loop_server.py \
            tests/testing/test_pages.py -k "simul or loop or faults" "$@"
    fi
done
echo "No Python 3.12 or later was found: the tests of rillet.testing.simulation are left out."
