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
    command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null 2>&1

install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
} >/dev/null 2>&1

# The shell is Chromium without windows, and takes a third less processor time. Where there is a Chromium, no list of packages
# is fetched for it.
if ! command -v chromium-headless-shell >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ]; then
    install chromium-headless-shell || there || {
        echo "installing chromium for the tests of the console"
        $as_root apt-get update -qq >/dev/null 2>&1
        install chromium-headless-shell || install chromium
    }
fi
there || echo "BROWSER MISSING: chromium: the tests in tests/console will report it" >&2
exit 0
