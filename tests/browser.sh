#!/bin/sh
# Gets the browser of tests/console and the accessibility checker: sh tests/browser.sh
#
#   chromium   from the system's packages
#   axe-core   from npm, into .peers/axe-core (or $RILLET_PEERS)
#
# Never fails: what cannot be had is reported here, and by every test that needs it.

here=$(cd "$(dirname "$0")" && pwd)
folder=${RILLET_PEERS:-$here/../.peers}
axe=4.14.1

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="none"
fi

if ! command -v chromium >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]; then
    echo "installing chromium for the tests of the console"
    { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium || {
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
    }; } >/dev/null 2>&1
fi
command -v chromium >/dev/null 2>&1 || echo "BROWSER MISSING: chromium: the tests in tests/console will report it" >&2

mkdir -p "$folder" 2>/dev/null
if [ ! -f "$folder/axe-core/axe.min.js" ]; then
    work=$(mktemp -d) || exit 0
    if (cd "$work" && npm pack --silent "axe-core@$axe" && tar -xzf "axe-core-$axe.tgz") >"$work/log" 2>&1; then
        mkdir -p "$folder/axe-core" && cp "$work/package/axe.min.js" "$work/package/LICENSE" "$folder/axe-core"
    else
        echo "AXE MISSING: axe-core could not be fetched; the end of what was printed:" >&2
        tail -n 5 "$work/log" >&2
    fi
    rm -rf "$work"
fi
exit 0
