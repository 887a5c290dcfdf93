#!/bin/sh
# Runs the tests of rillet.testing on old and new versions of redis-py: sh tests/redis_py.sh [arguments of pytest]
#
# Each has an environment of its own, .venvs/redis-4.5.5. All of them run, even if one fails; the last line says which did.

cd "$(dirname "$0")/.." || exit 1
passed="" failed=""
for version in 4.5.5 5.2.1 6.4.0 7.4.1 8.1.0; do
    folder=.venvs/redis-$version
    if [ ! -e $folder/.installed ]; then
        "${PYTHON:-python3}" -m venv $folder &&
            $folder/bin/pip install --quiet --disable-pip-version-check --editable '.[testing]' "redis==$version" \
                hypothesis pytest-asyncio pytest-xdist && touch $folder/.installed || exit 1
    fi
    echo "=== redis-py $version"
    if $folder/bin/pytest -q -n 4 tests/testing/test_clients_of_applications.py tests/testing/test_fixtures.py \
        tests/testing/test_unittest.py tests/testing/test_faults.py tests/testing/test_loop_server.py tests/testing/test_clients_across_resets.py \
        tests/testing/test_transports.py tests/testing/test_memory_transport_in_loop.py \
        tests/testing/test_clients_across_resets_in_loop.py "$@"; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done
echo "=== passed:${passed:- none}; failed:${failed:- none}"
[ -z "$failed" ]
