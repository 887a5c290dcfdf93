#!/bin/sh
# Gets the browser of tests/console from the system's packages: sh tests/browser.sh
#
# Never fails: what cannot be had is reported here, and by every test that needs it. The accessibility checker, axe-core,
# comes with the dev extra (axe-playwright-python).

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="none"
fi

there() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null 2>&1

if ! there && command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]; then
    echo "installing chromium for the tests of the console"
    { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium || {
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
    }; } >/dev/null 2>&1
fi
there || echo "BROWSER MISSING: chromium: the tests in tests/console will report it" >&2
exit 0
