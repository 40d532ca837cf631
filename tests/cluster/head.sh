#!/usr/bin/env bash
# Process 1 of the virtual cluster's head: bridge, munged, slurmctld, then the nodes.
# Usage: head.sh DIR NODES [RATE]
set -euo pipefail
here=$(dirname "$0")
dir=$1 nodes=$2 rate=${3:-off}

hostname head
mount -t sysfs -o ro sysfs /sys # this network's interfaces, not the machine's
mount --bind "$dir/hosts" /etc/hosts
ip link set lo up
ip link add br0 type bridge
ip address add 10.77.0.254/24 dev br0
ip link set br0 up

munged --foreground --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
  --log-file="$dir/log/munged.log" --seed-file="$dir/munge.seed" &
until [ -S "$dir/munge.socket" ]; do sleep 0.02; done
slurmctld -D -f "$dir/slurm.conf" &
for ((i = 1; i <= nodes; ++i)); do "$here/boot.sh" "$dir" "$i" "$rate"; done
while true; do wait; sleep 1; done # as process 1 bash also reaps orphans
