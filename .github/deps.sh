#!/usr/bin/env bash
# Installs what build, demo and tests need and this machine lacks: redis-server, Chromium and the
# console's Node packages. What is there already is used as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
# Without a font, text has no size and nothing on a page is visible.
command -v chromium >/dev/null || missing+=(chromium fonts-liberation)
if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "deps: install ${missing[*]} with this system's package manager, then try again" >&2
    exit 1
  fi
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  echo "deps: installing ${missing[*]}"
  $sudo apt-get update -qq
  # Only the programs are wanted: a packaged redis-server must not start a service of its own.
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v go >/dev/null; then
  echo "deps: Go 1.26 or later is needed: https://go.dev/doc/install" >&2
  exit 1
fi
if ! command -v npm >/dev/null; then
  echo "deps: Node.js 20 or later with npm is needed for the console: https://nodejs.org" >&2
  exit 1
fi
make --no-print-directory web/node_modules/.package-lock.json
