#!/usr/bin/env bash
# `make setup`: on Debian 12 installs by name what of debian-packages.txt is
# missing; elsewhere says what is needed and how to point CMake at it. There it
# always succeeds, because only CMake can tell whether all is found.
set -euo pipefail
list=$(dirname "$0")/debian-packages.txt

is_debian_12() {
  grep -qsx 'ID=debian' /etc/os-release && grep -qsx 'VERSION_ID="12"' /etc/os-release
}

missing_packages() {
  local package
  while read -r package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done < <(grep -v '^#' "$list")
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo; ask your administrator for: apt-get install $*" >&2
    return 1
  fi
  echo "setup: installing $*"
  # Another apt may be at work on a fresh machine: wait for it instead of failing.
  as_root apt-get -q -o DPkg::Lock::Timeout=600 update
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"
}

if ! is_debian_12; then
  cat "$(dirname "$0")/requirements.txt"
  exit 0
fi
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
