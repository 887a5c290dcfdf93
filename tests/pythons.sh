#!/bin/sh
# Runs `make test` on every Python found: sh tests/pythons.sh [ARGS='-k xclaim']
#
# Looks for 3.11 to 3.14 on PATH and in pyenv's folder. Each has an environment of its own, .venvs/3.12. All of them run,
# even if one fails; the last line says which did. Ends with 1 if any failed, or if there is no Python at all.

cd "$(dirname "$0")/.." || exit 1
versions=${PYENV_ROOT:-$HOME/.pyenv}/versions

# is_version VERSION PROGRAM: a shim of pyenv may be there without the Python behind it.
is_version() {
    [ "$("$2" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ]
}

passed="" failed=""
for version in 3.11 3.12 3.13 3.14; do
    for python in "$(command -v "python$version")" "$versions/$version".*/bin/python; do
        if is_version "$version" "$python"; then
            echo "=== Python $version: $python"
            if ${MAKE:-make} test VENV=".venvs/$version" PYTHON="$python" "$@"; then
                passed="$passed $version"
            else
                failed="$failed $version"
            fi
            break
        fi
    done
done
echo "=== passed:${passed:- none}; failed:${failed:- none}"
[ -n "$passed" ] && [ -z "$failed" ]
