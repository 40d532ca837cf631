#!/usr/bin/env bash
# Limits a virtual node's link, both ways. Runs on the head. Usage: limit.sh DIR NODE RATE (off: no limit)
set -euo pipefail
dir=$1 node=$2 rate=$3

# What passes at full speed after a pause. The less, the more a message takes latency + bytes / rate, as on a real link;
# below these figures the kernel cannot keep up the rate.
burst=10kb # more than a frame
case $rate in *gbit) burst=16kb ;; esac

limit() { # interface [prefix command...]
  if [ "$rate" = off ]; then
    "${@:2}" tc qdisc delete dev "$1" root 2>/dev/null || true # there may be none
  else
    "${@:2}" tc qdisc replace dev "$1" root tbf rate "$rate" burst "$burst" latency 200ms
  fi
}

limit "$node"
limit eth0 nsenter --target "$(<"$dir/$node.init")" --net
