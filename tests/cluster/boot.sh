#!/usr/bin/env bash
# Switches a virtual node on. Runs on the head, where the node's processes stay. Usage: boot.sh DIR NUMBER RATE
set -euo pipefail
here=$(dirname "$0")
dir=$1 number=$2 rate=$3

first_child() { awk 'NF { print $1; found = 1 } END { exit !found }' "/proc/$1/task/$1/children"; }
network_of() { readlink "/proc/$1/ns/net"; }

unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc "$here/node.sh" "$dir" "$number" &
guardian=$!
until child=$(first_child "$guardian") && [ "$(network_of "$child")" != "$(network_of self)" ]; do sleep 0.02; done
ip link add "node$number" mtu 9000 type veth peer name eth0 mtu 9000 netns "$child" # large frames, as fast networks have
ip link set "node$number" master br0 up
echo "$child" >"$dir/node$number.init"
"$here/limit.sh" "$dir" "node$number" "$rate"
