#!/usr/bin/env bash
# The virtual cluster itself: nodes take part, and the interface counters
# see what crosses a node's border.
source "$(dirname "$0")/lib.sh"

expect_equal 'nodes that answer' 'node1 node2' "$(on_head srun --nodes=2 hostname | sort | xargs)"

bytes=4000000
before=$(sent_by node2)
# shellcheck disable=SC2016 # SLURMD_NODENAME is the node's
received=$(on_head srun --nodes=2 bash -c '[ $SLURMD_NODENAME = node1 ] || head -c '$bytes' /dev/zero' | wc -c)
expect_equal 'bytes through srun' $bytes "$received"
expect_between 'bytes on the wire of node2' $bytes "$(($(sent_by node2) - before))" $((bytes * 108 / 100))
