#!/usr/bin/env bash
# Process 1 of a virtual node. Usage: node.sh DIR NUMBER
set -euo pipefail
dir=$1 number=$2

hostname "node$number"
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs -o mode=1777 tmpfs /dev/shm                  # shared memory ends at the node, as on a real one
[ ! -d /sys/fs/cgroup ] || mount -t tmpfs -o ro tmpfs /sys/fs/cgroup # slurmd must see none
ip link set lo up
until [ -e /sys/class/net/eth0 ]; do sleep 0.02; done       # the head plugs it in
ip address add "10.77.0.$number/24" dev eth0
ip link set eth0 up
mkdir -p "$dir/spool/node$number"
slurmd -D -N "node$number" -f "$dir/slurm.conf" </dev/null &
while true; do wait; sleep 1; done # as process 1 bash also reaps orphans
