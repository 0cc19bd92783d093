#!/bin/sh
# Debian packages that the tests drive for real: a browser and a Redis server. Does nothing when both are there.
set -eu
missing=""
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
[ -z "$missing" ] && { echo "chromium and redis-server are installed."; exit 0; }
if ! command -v apt-get >/dev/null 2>&1; then
    echo "No apt-get here. Install with your own package manager:$missing" >&2
    exit 1
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing
